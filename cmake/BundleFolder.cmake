# cmake -DFROM=<llama folder> -DFLAVOUR=rhizome|stock -DLIBRARY=<librhizome_llama.so or nothing> -DTO=<folder> -P ...
file(MAKE_DIRECTORY ${TO})
# A copy and not a link: /proc/self/exe of a linked program would name the folder that it was linked from.
file(COPY_FILE ${FROM}/bin-${FLAVOUR}/llama-server ${TO}/llama-server ONLY_IF_DIFFERENT)
file(GLOB libraries ${FROM}/lib/*.so*)
if(LIBRARY)
  list(APPEND libraries ${LIBRARY})
endif()
foreach(library IN LISTS libraries)
  get_filename_component(name ${library} NAME)
  file(CREATE_LINK ${library} ${TO}/${name} SYMBOLIC)
endforeach()
