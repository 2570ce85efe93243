from hushtune.seals.clear import Clear as Clear
from hushtune.seals.curator import Curator as Curator
from hushtune.seals.masked.seal import Masked as Masked
from hushtune.seals.quorum.seal import Quorum as Quorum
from hushtune.seals.threshold.seal import Threshold as Threshold
