"""How fast hushtune is: one module for each thing that is timed, and `bars`, which measures all of them."""
