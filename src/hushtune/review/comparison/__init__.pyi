from hushtune.review.comparison.arms import compare as compare
from hushtune.review.comparison.table import Arm as Arm
from hushtune.review.comparison.table import Comparison as Comparison
