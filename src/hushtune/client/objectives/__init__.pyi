from hushtune.client.objectives.base import Objective as Objective
from hushtune.client.objectives.base import objective as objective
from hushtune.client.objectives.neural import TorchObjective as TorchObjective
from hushtune.client.objectives.sklearn import SklearnObjective as SklearnObjective
