"""Run in OpenFHE's interpreter: all parties in one process, with what nobody may have in a real run, the joint secret.

Reads one JSON object from the standard input, and prints one.
"""

import json
import sys
from typing import Any

import numpy as np

sys.path.insert(0, sys.argv[1])
from threshold import residues, sidecar

SEED = "ab" * 32


def parties(context: Any, count: int, multiply: bool) -> tuple[list[Any], Any]:
    """Parties and an evaluator with all their keys."""
    ends, evaluator = [sidecar.Party(context, SEED) for _ in range(count)], sidecar.Evaluator(context, SEED)
    header = {"multiply": multiply}
    first = [end.keys(header, []) for end in ends]
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
            header = {"label": str(turn)}
            one = evaluator.boot(header, [])
            evaluator.booted({}, [share for end in ends for share in end.refresh(header, one)])
        for at, coefficients in enumerate(segment):
            evaluator.polynomial({"coefficients": coefficients, "fresh": turn + at == 0}, [])
    if given["kind"] == "division":
        evaluator.divide({"factors": given["series"], "offset": given["offset"]}, [])
    (small,) = evaluator.whole({"towers": 2}, []) if given["kind"] == "sum" else evaluator.found({"towers": 1}, [])
    values, finer = opened(context, ends, small) / given["finer"], given["finer"]
    shares = [
        end.decrypt({"lead": at == 0, "deviation": given["deviation"] * finer, "most": 4}, [small])[0]
        for at, end in enumerate(ends)
    ]
    fused = context.crypto.MultipartyDecryptFusion([context.ciphertext(share) for share in shares])
    fused.SetLength(context.ring // 2)
    noise = np.array(fused.GetCKKSPackedValue()) / finer - values
    folded = np.fft.fft(noise) / len(noise) ** 0.5  # noise in real parts only would leave a symmetry
    return {
        "real": values.real[: given["length"]].tolist(),
        "rest": float(np.abs(values.real[given["length"] :]).max(initial=0)),
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
        ends, evaluator = [sidecar.Party(context, SEED) for _ in range(2)], sidecar.Evaluator(context, SEED)
        shares = [end.keys({"multiply": True}, [])[1] for end in ends]
        second = ends[1].second({}, evaluator.first({}, shares))[0]
        first = bytes(len(shares[1])) + shares[1]
    else:  # the sequence that OpenFHE's documentation has
        one = crypto.KeyGen()
        other = crypto.MultipartyKeyGen(one.publicKey, False, True)
        begun = crypto.KeySwitchGen(one.secretKey, one.secretKey)
        share = crypto.MultiKeySwitchGen(other.secretKey, other.secretKey, begun)
        joint = crypto.MultiAddEvalKeys(begun, share, "joint")
        first = context.mould_of(share).residues()
        second = context.mould_of(crypto.MultiMultEvalKey(other.secretKey, joint, "joint")).residues()
    modulus, half = context.mould("switch").moduli()[0], len(first) // 2
    both = [
        (int(a) + int(b)) % modulus
        for a, b in zip(*(np.frombuffer(part, np.uint64)[:ring] for part in (first[half:], second)), strict=True)
    ]
    coefficients = np.array([value >> 30 for value in inverse(both, modulus)])
    return {"bands": len(np.unique(coefficients))}


def attack(given: dict[str, Any]) -> dict[str, Any]:
    """What somebody who may choose a common polynomial reads, and what one reads who may choose a key share only."""
    context = sidecar.Context(**given["parameters"])
    moduli, switch, ring = context.mould("public").moduli(0), context.mould("switch").moduli(0), context.ring
    numbers, zero = np.array(given["numbers"], np.float64), bytes(8 * ring * len(moduli))

    def share(a: bytes) -> tuple[Any, bytes]:
        """A secret, and its b for the polynomial a."""
        keys = context.crypto.MultipartyKeyGen(context.public_key(zero, a), False, True)
        return keys.secretKey, context.mould_of(keys.publicKey).halves()[0]

    def read(ciphertext: bytes, secret: Any) -> float:
        plain = context.crypto.Decrypt(context.ciphertext(ciphertext), secret)
        plain.SetLength(len(numbers))
        return float(np.abs(np.array(plain.GetCKKSPackedValue()).real - numbers).max())

    nothing = context.mould_of(share(zero)[0])
    nothing = context.fhe.DeserializePrivateKeyString(
        nothing.filled(bytes(len(nothing.residues()))), context.fhe.BINARY
    )
    victim = sidecar.Party(context, SEED)  # it encrypts under a joint key of a lead and an honest party
    b = residues.added([share(zero)[1], share(zero)[1]], moduli, ring)
    victim._joint = context.public_key(b, zero)
    found = {"chosen": read(victim.encrypt({"levels": [1]}, [numbers.tobytes()])[0], nothing)}
    (honest,) = victim.keys({"multiply": False}, [])
    for name, a in (("zero", zero), ("foreign", residues.common("another", "", moduli, ring))):
        secret, b = share(a)
        victim.joint({}, sidecar.Evaluator(context, SEED).public({}, [honest, b]))
        ciphertext = victim.encrypt({"levels": [1]}, [numbers.tobytes()])[0]
        found[name] = min(read(ciphertext, secret), read(ciphertext, nothing))
    joined = residues.common("joined", "", switch, ring)
    large = np.full(ring * len(switch), 2**40, np.uint64).tobytes()  # a constant: its product with s shows s
    chosen = context.crypto.MultiMultEvalKey(victim._keys.secretKey, context.eval_key(large, joined), "joint")
    shares = {"bands_chosen": context.mould_of(chosen).residues(), "bands": victim.second({}, [joined])[0]}
    for name, content in shares.items():
        values = inverse(np.frombuffer(content, np.uint64)[:ring].tolist(), switch[0])
        found[name] = len(np.unique(np.array(values) >> 30))
    made = [context.mould_of(victim._keys.publicKey).halves()[1], victim.common("public", 1)]
    found["same"] = made == [residues.common(SEED, "public ", moduli, ring)] * 2
    return found


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
    print(json.dumps({"errors": errors, "leak": leak, "attack": attack}[given.pop("task")](given)))
