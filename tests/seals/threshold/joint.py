"""Run in OpenFHE's interpreter: all parties in one process, with what nobody may have in a real run, the joint secret.

Reads one JSON object from the standard input, and prints one.
"""

import json
import sys
from typing import Any

import numpy as np

sys.path.insert(0, sys.argv[1])
import sidecar


def parties(context: Any, count: int, multiply: bool) -> tuple[list[Any], Any]:
    """Parties and an evaluator with all their keys."""
    ends, evaluator = [sidecar.Party(context) for _ in range(count)], sidecar.Evaluator(context)
    header = {"multiply": multiply, "tag": "joint"}
    lead = ends[0].lead(header, [])
    first = [lead, *(end.join(header, lead) for end in ends[1:])]
    public = evaluator.public(header, [shares[0] for shares in first])
    if multiply:
        joined = evaluator.first(header, [shares[1] for shares in first])
        relin = evaluator.second(header, [end.second(header, joined)[0] for end in ends])
        evaluator.third(header, [end.third(header, relin)[0] for end in ends])
    for end in ends:
        end.joint(header, public)
    return ends, evaluator


def opened(context: Any, ends: list[Any], ciphertext: bytes) -> Any:
    """The slots, by the joint secret: without anybody's noise."""
    secret = context.crypto.MultipartyKeyGen([end._keys.secretKey for end in ends]).secretKey
    plain = context.crypto.Decrypt(context.ciphertext(ciphertext), secret)
    plain.SetLength(context.ring // 2)
    return np.array(plain.GetCKKSPackedValue())


def errors(given: dict[str, Any]) -> dict[str, Any]:
    """The largest errors of a circuit before anything is opened, in slots that hold every input in turn."""
    context = sidecar.Context(**given["parameters"])
    ends, evaluator = parties(context, given["clients"], given["kind"] != "sum")
    for at, end in enumerate(ends):
        numbers = [np.array(values).tobytes() for values in given["inputs"][at]]
        evaluator.add({"fresh": at == 0}, end.encrypt({"levels": given["levels"]}, numbers))
    for turn, segment in enumerate(given["segments"]):
        if turn:
            one, random = evaluator.boot({}, [])
            evaluator.booted({}, [share for end in ends for share in end.refresh({}, [one, random])])
        for at, coefficients in enumerate(segment):
            evaluator.polynomial({"coefficients": coefficients, "fresh": turn + at == 0}, [])
    if given["kind"] == "division":
        evaluator.divide({"factors": given["series"], "offset": given["offset"]}, [])
    (small,) = evaluator.whole({"towers": 2}, []) if given["kind"] == "sum" else evaluator.found({"towers": 1}, [])
    values = opened(context, ends, small)
    shares = [
        end.decrypt({"lead": at == 0, "deviation": given["deviation"], "most": 4}, [small])[0]
        for at, end in enumerate(ends)
    ]
    fused = context.crypto.MultipartyDecryptFusion([context.ciphertext(share) for share in shares])
    fused.SetLength(context.ring // 2)
    noise = np.array(fused.GetCKKSPackedValue()) - values
    folded = np.fft.fft(noise) / len(noise) ** 0.5  # noise in real parts only would leave a symmetry
    return {
        "real": values.real[: given["length"]].tolist(),
        "rest": float(np.abs(values.real[given["length"] :]).max()),
        "imaginary": float(np.abs(values.imag).max()),
        "noise_real": float(noise.real.std()),
        "noise_imaginary": float(noise.imag.std()),
        "noise_mean": float(np.abs(noise.mean())),
        "noise_flat": float(np.abs(folded).max()),
    }


def leak(given: dict[str, Any]) -> dict[str, Any]:
    """In how many narrow bands the sum of a party's first two relinearisation shares lies: 3 give its secret away."""
    context = sidecar.Context(**given["parameters"])
    crypto, ring = context.crypto, context.ring
    if given["ephemeral"]:
        ends, evaluator = [sidecar.Party(context) for _ in range(2)], sidecar.Evaluator(context)
        header = {"multiply": True, "tag": "joint"}
        lead = ends[0].lead(header, [])
        first = ends[1].join(header, lead)[1]
        joined = evaluator.first(header, [lead[1], first])
        second = ends[1].second(header, joined)[0]
    else:  # the sequence that OpenFHE's documentation has
        one = crypto.KeyGen()
        other = crypto.MultipartyKeyGen(one.publicKey, False, True)
        begun = crypto.KeySwitchGen(one.secretKey, one.secretKey)
        share = crypto.MultiKeySwitchGen(other.secretKey, other.secretKey, begun)
        joint = crypto.MultiAddEvalKeys(begun, share, "joint")
        first = context.bytes_of(share)
        second = context.bytes_of(crypto.MultiMultEvalKey(other.secretKey, joint, "joint"))
    half = len(sidecar.vectors(first, ring)) // 2
    (at, modulus), (there, _) = sidecar.vectors(first, ring)[half], sidecar.vectors(second, ring)[0]
    both = [
        (int(a) + int(b)) % modulus
        for a, b in zip(sidecar._residues(first, at, ring), sidecar._residues(second, there, ring), strict=True)
    ]
    coefficients = np.array([value >> 30 for value in inverse(both, modulus)])
    return {"bands": len(np.unique(coefficients))}


def inverse(values: list[int], modulus: int) -> list[int]:
    """Coefficients of a polynomial from its values at the odd powers of a root of unity, in bit-reversed order."""
    size, base = len(values), 2
    while pow(root := pow(base, (modulus - 1) // (2 * size), modulus), size, modulus) != modulus - 1:
        base += 1
    bits = size.bit_length() - 1
    natural = [values[int(format(at, f"0{bits}b")[::-1], 2)] for at in range(size)]
    found = _transformed(natural, pow(root, -2, modulus), modulus)
    back, factor, one = pow(root, -1, modulus), pow(size, -1, modulus), []
    for value in found:
        one.append(value * factor % modulus)
        factor = factor * back % modulus
    return one


def _transformed(values: list[int], root: int, modulus: int) -> list[int]:
    if len(values) == 1:
        return values
    even, odd = (_transformed(values[at::2], root * root % modulus, modulus) for at in (0, 1))
    found, power = [0] * len(values), 1
    for at, (one, other) in enumerate(zip(even, odd, strict=True)):
        turned = power * other % modulus
        found[at], found[at + len(even)] = (one + turned) % modulus, (one - turned) % modulus
        power = power * root % modulus
    return found


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps({"errors": errors, "leak": leak}[given.pop("task")](given)))
