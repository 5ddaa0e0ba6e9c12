//! Says whether the body on standard input was signed with the secret: `verify SECRET HEADER`.

use std::io::Read;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub fn verify(secret: &str, header: &str, raw_body: &[u8]) -> bool {
    let Some(given) = header
        .strip_prefix("sha256=")
        .and_then(|digest| hex::decode(digest).ok())
    else {
        return false;
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(raw_body);
    mac.verify_slice(&given).is_ok()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut body = Vec::new();
    std::io::stdin()
        .read_to_end(&mut body)
        .expect("standard input");
    let valid = verify(&arguments[1], &arguments[2], &body);
    println!("{}", if valid { "valid" } else { "invalid" });
}
