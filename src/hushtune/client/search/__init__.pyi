from hushtune.client.search.adaptive import Adaptive as Adaptive
from hushtune.client.search.base import Search as Search
