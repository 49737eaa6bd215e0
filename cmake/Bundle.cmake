# Filled in when the engine's library exists.
