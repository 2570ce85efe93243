from hushtune.methods.combine.method import Combine as Combine
from hushtune.methods.plan import Plan as Plan
from hushtune.methods.prior import Prior as Prior
from hushtune.methods.propose_test.method import NoisyMax as NoisyMax
from hushtune.methods.propose_test.method import ProposeTest as ProposeTest
from hushtune.methods.surface.method import Surface as Surface
from hushtune.methods.thompson.method import Thompson as Thompson
from hushtune.methods.vote.method import Vote as Vote
