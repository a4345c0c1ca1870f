#include "engine/core/say.h"

#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace benchsuite {

Say once(Say say) {
  struct Said {
    std::mutex mutex;
    std::set<std::string> texts;
  };
  return [say = std::move(say), said = std::make_shared<Said>()](const std::string& text) {
    const std::lock_guard lock(said->mutex);
    if (said->texts.insert(text).second) say(text);
  };
}

}  // namespace benchsuite
