from hushtune.run.result import Result as Result
from hushtune.run.tuning import tune as tune
