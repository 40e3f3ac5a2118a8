import Lean
import Coppice
#serve
