# Writes HEADER with the commit of SOURCE, if that changed. Run by the build, not by hand.
set(commit "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} describe --always --dirty WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define BENCHSUITE_COMMIT \"${commit}\"\n")
