#include "suite/run/screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include "suite/report/console.h"

namespace benchsuite {

namespace {

constexpr auto kHeartbeat = std::chrono::seconds(10);

}  // namespace

Screen::Screen(const RunRequest& request, std::size_t cases)
    : out_(request.json == "-" ? stderr : stdout),
      quiet_(request.quiet),
      progress_(request.progress),
      colour_(wants_colour(request.no_color, ::fileno(out_))),
      live_(request.progress == Progress::automatic && !request.quiet && ::isatty(::fileno(out_)) == 1),
      cases_(cases),
      begin_(std::chrono::steady_clock::now()) {}

void Screen::start(const CaseResult& result, std::size_t variants, std::string_view device) {
  ++case_;
  total_ = variants;
  counted_ = 0;
  last_sign_ = std::chrono::steady_clock::now();
  CaseResult announced = result;
  announced.variants.resize(variants);
  if (!quiet_) write(console_start(announced, device, colour_));
  if (live_) show_progress(0);
}

void Screen::note(const std::string& text) {
  if (quiet_) return;
  if (live_) write("\r\033[K");
  line("         note: " + text);
}

void Screen::variant(const VariantResult& result, bool told) {
  ++counted_;
  if (live_) return show_progress(counted_);
  if (!told || quiet_ || progress_ != Progress::plain) return;
  last_sign_ = std::chrono::steady_clock::now();
  const bool measured = result.status == Status::pass;
  write(
      fmt::format("         {}/{} {} {}\n", counted_, total_, result.id,
                  measured ? fmt::format("{:.6g} s a step", result.iteration_s) : std::string(name_of(result.status))));
}

void Screen::waiting(std::size_t finished) {
  if (quiet_ || live_ || progress_ == Progress::none) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_sign_ < kHeartbeat) return;
  last_sign_ = now;
  write(fmt::format("         still running: case {} of {}, {} of {} variants done, {:.0f} s\n", case_, cases_,
                    finished, total_, std::chrono::duration<double>(now - begin_).count()));
}

void Screen::finish(const CaseResult& result, const std::string& reproduce) {
  if (live_) write("\r\033[K");
  if (!quiet_) write(console_case(result, colour_, reproduce));
}

void Screen::kept(const CaseResult& result) {
  ++case_;
  if (!quiet_)
    line(fmt::format("[ KEPT ] {}  {} (complete before the run was stopped)", result.id, name_of(result.status)));
}

void Screen::show_progress(std::size_t finished) {
  write(fmt::format("\r\033[K         case {}/{}, variant {}/{}, {:.0f} s", case_, cases_, finished, total_,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count()));
}

void Screen::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace benchsuite
