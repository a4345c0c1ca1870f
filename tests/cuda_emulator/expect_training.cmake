# PROGRAM train --device cuda, four ranks on emulated GPUs: two steps, and a third from the checkpoint. 512 words, drawn blindly, have
# a loss of ln 512 = 6.24; three steps lower it a little.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
string(REPEAT "the quick brown fox jumps over the lazy dog. " 200 text)
file(WRITE ${FOLDER}/text "${text}")
foreach(steps 2 3)
  file(WRITE ${FOLDER}/config.json [[{"schema_version": 1, "model": "gpt-tiny", "stack": "plain",
    "layout": {"tp": 2, "pp": 2, "dp": 1, "micro_batch": 2, "global_batch": 4, "sequence_parallel": true, "precision": "bf16",
               "attention": "flash"},
    "data": {"path": "text"}, "optimizer": {"lr": 1e-3, "min_lr": 1e-4, "warmup": 1, "decay_steps": 3},
    "steps": ]] ${steps} [[, "checkpoint": {"every": 1, "keep": 1, "dir": "saved"}, "log": "log.jsonl"}]])
  if(steps EQUAL 3)
    set(resume --resume)
  endif()
  execute_process(COMMAND ${PROGRAM} train --config config.json --device cuda ${resume} WORKING_DIRECTORY ${FOLDER}
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 0 OR NOT out MATCHES "4 ranks as threads, a GPU each" OR NOT out MATCHES "done   ${steps} steps, loss [56]\\.")
    message(FATAL_ERROR "exit code ${code}\n${out}\n${err}")
  endif()
endforeach()
