# PROGRAM VERB --device cuda, without a driver or without a visible GPU: one line on standard error, exit code 5.
if(VERB STREQUAL "train")
  set(arguments --config ${CONFIG})
endif()
execute_process(COMMAND ${PROGRAM} ${VERB} ${arguments} --device cuda RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT code EQUAL 5 OR NOT out STREQUAL "" OR NOT err MATCHES "^benchsuite: device cuda: [^\n]+\n$")
  message(FATAL_ERROR "exit code ${code}, standard output '${out}', standard error '${err}'")
endif()
