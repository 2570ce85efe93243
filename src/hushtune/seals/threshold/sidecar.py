"""One party's end of multiparty CKKS: a process that holds a secret key share and never sends it.

Runs in an interpreter that OpenFHE has a wheel for: nothing here needs more than Python 3.10, openfhe and the numpy
that it brings. Messages on the standard streams: a header (JSON) and binary parts, with their lengths before them. The
server's end is the same program without a secret.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import IO, Any

import numpy as np

IDLE = 3600.0  # seconds without a message after which a party forgets its secret
_HEAD = struct.Struct(">IQ")
_LONGEST_HEADER, _LONGEST_PART = 2**24, 2**31


def pieces_of(header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
    """One message, to be written piece by piece: the lengths of the header and of each part come first."""
    text = json.dumps({**header, "lengths": [len(part) for part in parts]}).encode()
    return [_HEAD.pack(len(text), sum(map(len, parts))) + text, *parts]


def write_message(stream: IO[bytes], header: dict[str, Any], parts: list[bytes]) -> None:
    """Writes one message to a stream, and flushes it."""
    for piece in pieces_of(header, parts):
        stream.write(piece)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The next message; EOFError if there is none."""
    length, rest = _HEAD.unpack(_exactly(stream, _HEAD.size))
    if length > _LONGEST_HEADER or rest > _LONGEST_PART:
        raise EOFError
    header = json.loads(_exactly(stream, length))
    lengths = header.pop("lengths")
    if sum(lengths) != rest:
        raise EOFError
    return header, [_exactly(stream, size) for size in lengths]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    pieces = []
    while size:
        piece = stream.read(size)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class Context:
    """OpenFHE with parameters that all parties share; OpenFHE itself refuses those below 128 bits of security."""

    def __init__(self, ring: int, depth: int, scale: int, first: int, digits: int) -> None:
        import openfhe

        self.fhe = openfhe
        given = openfhe.CCParamsCKKSRNS()
        given.SetSecurityLevel(openfhe.SecurityLevel.HEStd_128_classic)
        given.SetRingDim(ring)
        given.SetBatchSize(ring // 2)
        given.SetMultiplicativeDepth(depth)
        given.SetScalingModSize(scale)
        given.SetFirstModSize(first)
        given.SetScalingTechnique(openfhe.ScalingTechnique.FIXEDMANUAL)
        given.SetKeySwitchTechnique(openfhe.KeySwitchTechnique.HYBRID)
        given.SetNumLargeDigits(digits)
        given.SetSecretKeyDist(openfhe.SecretKeyDist.UNIFORM_TERNARY)
        given.SetCKKSDataType(openfhe.CKKSDataType.COMPLEX)
        given.SetInteractiveBootCompressionLevel(openfhe.CompressionLevel.COMPACT)
        self.crypto = openfhe.GenCryptoContext(given)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE, openfhe.MULTIPARTY):
            self.crypto.Enable(feature)
        openfhe.DisablePrecomputeCRTTablesAfterDeserializaton()  # which would take longer than all else
        self.ring = ring

    def bytes_of(self, value: Any) -> bytes:
        """A key or ciphertext as bytes."""
        return bytes(self.fhe.Serialize(value, self.fhe.BINARY))

    def public_key(self, content: bytes) -> Any:
        """The public key that `bytes_of` wrote."""
        return self.fhe.DeserializePublicKeyString(content, self.fhe.BINARY)

    def eval_key(self, content: bytes) -> Any:
        """The evaluation key that `bytes_of` wrote."""
        return self.fhe.DeserializeEvalKeyString(content, self.fhe.BINARY)

    def ciphertext(self, content: bytes) -> Any:
        """The ciphertext that `bytes_of` wrote."""
        return self.fhe.DeserializeCiphertextString(content, self.fhe.BINARY)


class Party:
    """A party: its key share, and the partial results that need it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._keys: Any = None
        self._ephemeral: Any = None
        self._joint: Any = None
        self._kept: dict[str, list[bytes]] = {}
        self._opened = 0

    def keep(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Keeps something under a name, for as long as there is the secret."""
        self._kept[header["name"]] = parts
        return []

    def recall(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """What was kept under a name."""
        return self._kept.get(header["name"], [])

    def once(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """One of the operations below; if it was done under that name already, what it gave then."""
        if header["name"] not in self._kept:
            self._kept[header["name"]] = list(getattr(self, header["step"])(header, parts))
        return self._kept[header["name"]]

    def lead(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The first party: its public key and its first relinearisation share, whose randomness all others take."""
        self._keys = self.context.crypto.KeyGen()
        found = [self.context.bytes_of(self._keys.publicKey)]
        if header["multiply"]:
            self._ephemeral = self.context.crypto.KeyGen().secretKey
            key = self.context.crypto.KeySwitchGen(self._keys.secretKey, self._ephemeral)
            found.append(self.context.bytes_of(key))
        return found

    def join(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Every other party: the same for the lead's random polynomials."""
        lead = self.context.public_key(parts[0])
        self._keys = self.context.crypto.MultipartyKeyGen(lead, False, True)
        found = [self.context.bytes_of(self._keys.publicKey)]
        if header["multiply"]:
            self._ephemeral = self.context.crypto.KeyGen().secretKey
            first = self.context.eval_key(parts[1])
            key = self.context.crypto.MultiKeySwitchGen(self._keys.secretKey, self._ephemeral, first)
            found.append(self.context.bytes_of(key))
        return found

    def second(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The second relinearisation share, from everybody's first: (a s_i, (P s - a u) s_i), each with noise."""
        joined = self.context.eval_key(parts[0])
        share = self.context.crypto.MultiMultEvalKey(self._keys.secretKey, joined, header["tag"])
        return [self.context.bytes_of(share)]

    def third(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The third: a s (u_i - s_i) with noise. The ephemeral key is forgotten.

        OpenFHE's own sequence takes u_i = s_i; the first two shares of a party then add up to P s_i plus noise, which
        gives its secret away. With an ephemeral u_i (Mouchet et al. 2021, protocol RelinKeyGen) they do not.
        """
        context, ring = self.context, self.context.ring
        secret, ephemeral = context.bytes_of(self._keys.secretKey), context.bytes_of(self._ephemeral)
        difference = context.fhe.DeserializePrivateKeyString(subtracted(ephemeral, secret, ring), context.fhe.BINARY)
        share = context.crypto.MultiMultEvalKey(difference, context.eval_key(parts[0]), header["tag"])
        self._ephemeral = None
        return [first_half(context.bytes_of(share), ring)]

    def joint(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Takes the joint public key."""
        self._joint = self.context.public_key(parts[0])
        return []

    def encrypt(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Each part, doubles, as one ciphertext, at the level that is given for it."""
        crypto, found = self.context.crypto, []
        for part, level in zip(parts, header["levels"], strict=True):
            plain = crypto.MakeCKKSPackedPlaintext(np.frombuffer(part).tolist(), 1, level)
            found.append(self.context.bytes_of(crypto.Encrypt(self._joint, plain)))
        return found

    def decrypt(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Partial decryptions, with Gaussian smudging of the given deviation in every slot, so in every coefficient."""
        crypto, found = self.context.crypto, []
        self._opened += len(parts)  # here, where no older state can be put back
        if self._opened > header["most"]:
            raise PermissionError(f"at most {header['most']} ciphertexts are decrypted under one set of keys")
        decrypt = crypto.MultipartyDecryptLead if header["lead"] else crypto.MultipartyDecryptMain
        for part in parts:
            (share,) = decrypt([self.context.ciphertext(part)], self._keys.secretKey)
            noise = gaussians(self.context.ring // 2, header["deviation"])
            plain = crypto.MakeCKKSPackedPlaintext(noise, 1, share.GetLevel())
            found.append(self.context.bytes_of(crypto.EvalAdd(share, plain)))
        return found

    def refresh(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """A share of the distributed bootstrapping: masked by the party's own randomness."""
        one, random = (self.context.ciphertext(part) for part in parts)
        shares = self.context.crypto.IntMPBootDecrypt(self._keys.secretKey, one, random)
        return [self.context.bytes_of(share) for share in shares]


class Evaluator:
    """The server: adds up shares and ciphertexts, and computes with sums. It has no secret."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._public: Any = None
        self._first: Any = None
        self._relin: Any = None
        self._sums: list[Any] = []
        self._found: Any = None
        self._random: Any = None

    def public(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The joint public key."""
        self._public = self.context.public_key(parts[0])
        for part in parts[1:]:
            self._public = self.context.crypto.MultiAddPubKeys(
                self._public, self.context.public_key(part), header["tag"]
            )
        return [self.context.bytes_of(self._public)]

    def first(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Everybody's first relinearisation shares, added up."""
        joined = self.context.eval_key(parts[0])
        for part in parts[1:]:
            joined = self.context.crypto.MultiAddEvalKeys(joined, self.context.eval_key(part), header["tag"])
        return [self.context.bytes_of(joined)]

    def second(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Everybody's second relinearisation shares, added up."""
        self._relin = self.context.eval_key(parts[0])
        for part in parts[1:]:
            share = self.context.eval_key(part)
            self._relin = self.context.crypto.MultiAddEvalMultKeys(self._relin, share, header["tag"])
        self._first = self.context.bytes_of(self._relin)
        return [self._first]

    def third(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The third ones, which complete the relinearisation key."""
        for part in parts:
            share = self.context.eval_key(with_second_half(self._first, part, self.context.ring))
            self._relin = self.context.crypto.MultiAddEvalKeys(self._relin, share, header["tag"])
        self.context.crypto.InsertEvalMultKey([self._relin])
        self._first = None
        return []

    def add(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Adds one party's ciphertexts to the sums; `fresh` begins new ones."""
        found = [self.context.ciphertext(part) for part in parts]
        if header["fresh"]:
            self._sums = found
        else:
            self._sums = [self.context.crypto.EvalAdd(one, other) for one, other in zip(self._sums, found, strict=True)]
        return []

    def multiply(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The first sum times itself."""
        self._found = self._rescaled(self.context.crypto.EvalMult(self._sums[0], self._sums[0]))
        return []

    def polynomial(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """A Chebyshev series of the first sum, or of what was found last."""
        self._found = self._series(self._sums[0] if header["fresh"] else self._found, header["coefficients"])
        return []

    def divide(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The second sum times one or two series of the first, whose product approximates the reciprocal.

        With `offset`, a step of Newton's method follows: q (2 - t) with q = s r and t = (x + offset) r.
        """
        (count, found), crypto = self._sums, self.context.crypto
        for coefficients in header["factors"]:
            series = self._series(count, coefficients)
            found = self._rescaled(crypto.EvalMult(series, found))
        if header["offset"] is not None:
            near = self._rescaled(crypto.EvalMult(crypto.EvalAdd(count, header["offset"]), series))
            found = self._rescaled(crypto.EvalMult(found, crypto.EvalSub(2.0, near)))
        self._found = found
        return []

    def whole(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The sums themselves, made small for decryption."""
        return [self._small(total, header["towers"]) for total in self._sums]

    def found(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """What was computed, made small for decryption."""
        return [self._small(self._found, header["towers"])]

    def boot(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Begins the distributed bootstrapping of what was found last: what every party needs for its share."""
        crypto = self.context.crypto
        self._found = crypto.IntMPBootAdjustScale(self._found)
        self._random = crypto.IntMPBootRandomElementGen(self._public)
        one = self._found.Clone()
        one.RemoveElement(0)
        return [self.context.bytes_of(one), self.context.bytes_of(self._random)]

    def booted(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """Ends it, with two parts from each party."""
        crypto, shares = self.context.crypto, [self.context.ciphertext(part) for part in parts]
        pairs = [shares[at : at + 2] for at in range(0, len(shares), 2)]
        self._found = crypto.IntMPBootEncrypt(self._public, crypto.IntMPBootAdd(pairs), self._random, self._found)
        return []

    def fuse(self, header: dict[str, Any], parts: list[bytes]) -> list[bytes]:
        """The values in the slots, from everybody's partial decryptions of one ciphertext."""
        plain = self.context.crypto.MultipartyDecryptFusion([self.context.ciphertext(part) for part in parts])
        plain.SetLength(header["length"])
        return [np.array(plain.GetCKKSPackedValue()).real.tobytes()]

    def _series(self, value: Any, coefficients: list[float]) -> Any:
        doubled = [2 * coefficients[0], *coefficients[1:]]  # OpenFHE takes half of the first
        return self._rescaled(self.context.crypto.EvalChebyshevSeries(value, doubled, -1, 1))

    def _rescaled(self, value: Any) -> Any:
        while value.GetNoiseScaleDeg() > 1:
            value = self.context.crypto.Rescale(value)
        return value

    def _small(self, value: Any, towers: int) -> bytes:
        return self.context.bytes_of(self.context.crypto.Compress(value, towers))


# ---- noise, and what OpenFHE's Python module has no calls for ----------------------------------------------


def gaussians(count: int, deviation: float) -> list[complex]:
    """So many complex numbers, each part Gaussian with the given deviation, from the system's cryptographic source."""
    words = np.frombuffer(os.urandom(16 * count), dtype=np.uint64) >> np.uint64(11)
    radius = deviation * np.sqrt(-2 * np.log((words[:count] + np.uint64(1)) * 2.0**-53))
    found: list[complex] = (radius * np.exp(2j * np.pi * 2.0**-53 * words[count:])).tolist()
    return found


def vectors(content: bytes, ring: int) -> list[tuple[int, int]]:
    """Where a serialised object has its residue vectors, and their moduli: a length, the residues, the modulus."""
    mark, size, at, found = struct.pack("<Q", ring), 8 * ring, 0, []
    while (at := content.find(mark, at)) >= 0:
        end = at + 8 + size
        if end + 8 <= len(content):
            (modulus,) = struct.unpack_from("<Q", content, end)
            prime = modulus % (2 * ring) == 1 and 2**28 < modulus < 2**61
            if prime and int(_residues(content, at + 8, ring).max()) < modulus:
                found.append((at + 8, modulus))
                at = end
                continue
        at += 1
    return found


def _residues(content: bytes, at: int, ring: int) -> Any:
    return np.frombuffer(content, dtype=np.uint64, count=ring, offset=at)


def subtracted(one: bytes, other: bytes, ring: int) -> bytes:
    """The serialised private key that is the difference of two."""
    places, others, found = vectors(one, ring), vectors(other, ring), bytearray(one)
    if not places or [modulus for _, modulus in places] != [modulus for _, modulus in others]:
        raise ValueError("keys of other parameters")
    for (at, modulus), (there, _) in zip(places, others, strict=True):
        first, second = _residues(one, at, ring), _residues(other, there, ring)
        rest = np.where(first >= second, first - second, first + np.uint64(modulus) - second)
        found[at : at + 8 * ring] = rest.tobytes()
    return bytes(found)


def first_half(key: bytes, ring: int) -> bytes:
    """The first polynomials (A) of an evaluation key."""
    places = vectors(key, ring)
    if not places or len(places) % 2:
        raise ValueError("no evaluation key")
    return b"".join(key[at : at + 8 * ring] for at, _ in places[: len(places) // 2])


def with_second_half(key: bytes, half: bytes, ring: int) -> bytes:
    """An evaluation key with other second polynomials (B)."""
    places, found, size = vectors(key, ring), bytearray(key), 8 * ring
    places = places[len(places) // 2 :]
    if not places or len(half) != len(places) * size:
        raise ValueError("a share of another length")
    for number, (at, modulus) in enumerate(places):
        part = half[number * size : (number + 1) * size]
        if int(_residues(part, 0, ring).max()) >= modulus:
            raise ValueError("a residue out of range")
        found[at : at + size] = part
    return bytes(found)


# ---- the loop ----------------------------------------------------------------------------------------------


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answers until the stream ends, or nobody has asked for a long time."""
    end: Any = None
    while select.select([source], [], [], IDLE)[0]:
        try:
            header, parts = read_message(source)
        except EOFError:
            return
        reply: dict[str, Any] = {"call": header.get("call")}
        started, found = time.process_time(), []
        try:
            if header["op"] == "end":
                return
            if header["op"] == "begin":
                end = (Party if header["party"] else Evaluator)(Context(**header["parameters"]))
            elif header["op"] != "ping":
                found = list(getattr(end, header["op"])(header, parts))
        except Exception as error:  # OpenFHE's texts name its own files, never values
            reply["error"] = f"{type(error).__name__}: {str(error)[-200:]}".splitlines()[-1]
        now = time.process_time()
        write_message(sink, {**reply, "cpu": now - started, "total": now}, found)


def main() -> None:
    """Keeps the standard output for messages: what C++ prints goes to the error stream."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(os.fdopen(os.dup(0), "rb", buffering=0), sink)


if __name__ == "__main__":
    main()
