#!/usr/bin/env python3
"""Makes the sentences that come with the bridge: espeak-ng speaks them, sox brings them to 8 kHz, and they are kept as IMA ADPCM
with four bits a sample, the high half of a byte first. Their words are told again in ../src/voice/phrases.rs.

    python3 telephony/voices/make.py
"""

import array
import pathlib
import subprocess

VOICES = {"id": ["-v", "id", "-s", "150"], "en": ["-v", "en-us", "-s", "150"]}
TEXTS = {
    "wait": ("Mohon tunggu sebentar.", "One moment, please."),
    "sorry": (
        "Maaf, panggilan ini harus kami akhiri. Silakan telepon lagi nanti.",
        "Sorry, we have to end this call. Please call again later.",
    ),
    "greeting": (
        "Halo! Ini suara uji Dikala, tanpa kecerdasan buatan.",
        "Hello! This is the test voice of Dikala, without any artificial intelligence.",
    ),
    "question": (
        "Silakan bicara, atau tekan angka, lalu tanda pagar.",
        "Please say something, or press some digits, and then the hash key.",
    ),
    "heard": ("Terima kasih, suara Anda terdengar.", "Thank you, I can hear you."),
    "looking": ("Baik, saya periksa dulu.", "All right, let me look that up."),
    "result": ("Jawabannya:", "The answer is:"),
    "done": ("Sudah selesai.", "It is done."),
    "failed": ("Maaf, itu tidak berhasil.", "Sorry, that did not work."),
    "goodbye": ("Terima kasih sudah menelepon. Sampai jumpa!", "Thank you for calling. Goodbye!"),
}
DIGITS = {
    "id": "nol satu dua tiga empat lima enam tujuh delapan sembilan".split(),
    "en": "zero one two three four five six seven eight nine".split(),
}
STEPS = [7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118, 130,
         143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282,
         1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630,
         9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767]
MOVES = [-1, -1, -1, -1, 2, 4, 6, 8]


def spoken(language, text):
    """The samples of a text at 8 kHz, without the silence around it."""
    wav = subprocess.run(["espeak-ng", *VOICES[language], "--stdout", text], check=True, capture_output=True).stdout
    silence = ["silence", "1", "0.01", "0.3%", "reverse"] * 2
    effects = ["rate", "-v", "8000", "highpass", "150", *silence, "norm", "-6", "pad", "0", "0.08"]
    raw = ["-t", "raw", "-r", "8000", "-c", "1", "-e", "signed", "-b", "16", "-L", "-"]
    pcm = subprocess.run(["sox", "-D", "-t", "wav", "-", *raw, *effects], input=wav, check=True, capture_output=True).stdout
    return array.array("h", pcm)


def packed(samples):
    """IMA ADPCM."""
    predicted, index, halves = 0, 0, []
    for sample in samples:
        step = STEPS[index]
        off = sample - predicted
        code, off = (8, -off) if off < 0 else (0, off)
        gone = step >> 3
        for bit in (4, 2, 1):
            part = step >> (2 - bit.bit_length() + 1)
            if off >= part:
                code |= bit
                off -= part
                gone += part
        predicted = max(-32768, min(32767, predicted + (-gone if code & 8 else gone)))
        index = max(0, min(88, index + MOVES[code & 7]))
        halves.append(code)
    if len(halves) % 2:
        halves.append(0)
    return bytes(high << 4 | low for high, low in zip(halves[::2], halves[1::2]))


folder = pathlib.Path(__file__).parent
for position, language in enumerate(VOICES):
    texts = {name: both[position] for name, both in TEXTS.items()}
    texts |= {str(digit): word for digit, word in enumerate(DIGITS[language])}
    (folder / language).mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / language / f"{name}.ima").write_bytes(packed(spoken(language, text)))
