//! Answers in fewer bytes, for who takes gzip.

use std::io::Write;

use actix_web::{
    body::{BoxBody, MessageBody},
    dev::ServiceResponse,
    http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY},
};
use flate2::{Compression, GzBuilder, write::GzEncoder};
use rand::RngExt as _;

use super::headers::header;

/// The longest comment in a page that is packed.
const COMMENT_MAX: usize = 64;

/// Whether who asks takes gzip.
pub fn is_taken(headers: &HeaderMap) -> bool {
    let accepted = header(headers, &ACCEPT_ENCODING).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let (coding, weight) = coding.split_once(';').unwrap_or((coding, ""));
        coding.trim().eq_ignore_ascii_case("gzip") && !matches!(weight.trim(), "q=0" | "q=0.0")
    })
}

/// What never changes, packed once and for all.
pub fn once(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    write(GzEncoder::new(Vec::new(), Compression::best()), plain)
}

fn write(mut encoder: GzEncoder<Vec<u8>>, plain: &[u8]) -> std::io::Result<Vec<u8>> {
    encoder.write_all(plain)?;
    encoder.finish()
}

/// A page, packed where that is wanted. What is sent piece by piece stays as it is.
pub fn page(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let is_taken = is_taken(response.request().headers());
    response.map_body(|head, body| match body.try_into_bytes() {
        Ok(plain) if plain.is_empty() => BoxBody::new(plain),
        Ok(plain) => {
            let vary = HeaderValue::from_static("Accept-Encoding");
            head.headers_mut().insert(VARY, vary);
            let packed = is_taken.then(|| write(padded(), &plain).ok()).flatten();
            let Some(packed) = packed else {
                return BoxBody::new(plain);
            };
            let gzip = HeaderValue::from_static("gzip");
            head.headers_mut().insert(CONTENT_ENCODING, gzip);
            BoxBody::new(packed)
        }
        Err(body) => body,
    })
}

/// With a comment of any length, so that the size of a page does not tell whether what somebody put into its address is in the
/// page as well (BREACH).
fn padded() -> GzEncoder<Vec<u8>> {
    let comment = vec![b'-'; rand::rng().random_range(0..COMMENT_MAX)];
    GzBuilder::new()
        .comment(comment)
        .write(Vec::new(), Compression::fast())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("gzip, deflate, br", true)]
    #[case("br;q=1.0, GZIP;q=0.8", true)]
    #[case("br, gzip;q=0", false)]
    #[case("identity", false)]
    fn gzip_is_taken_by_who_says_so(#[case] accepted: &'static str, #[case] expected: bool) {
        let mut headers = HeaderMap::new();
        assert!(!is_taken(&headers));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        assert_eq!(is_taken(&headers), expected);
    }

    #[test]
    fn the_same_page_has_different_sizes() {
        let plain = b"<p>Halo</p>".repeat(100);
        let pages: Vec<Vec<u8>> = (0..50)
            .map(|_| write(padded(), &plain).expect("a page"))
            .collect();
        assert!(pages.iter().any(|page| page.len() != pages[0].len()));
        let mut read = Vec::new();
        let mut decoder = GzDecoder::new(&pages[0][..]);
        decoder.read_to_end(&mut read).expect("gzip");
        assert_eq!(read, plain);
    }
}
