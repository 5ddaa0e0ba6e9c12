//! Answers in fewer bytes, for who takes gzip.

use std::io::{Read, Write};

use actix_web::{
    body::{BoxBody, MessageBody},
    dev::ServiceResponse,
    http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY},
};
use flate2::{Compression, GzBuilder, read::GzDecoder, write::GzEncoder};
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

/// What lies packed in the program, unpacked for who does not take that.
pub fn stored(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let is_taken = is_taken(response.request().headers());
    response.map_body(|head, body| {
        if !head.headers().contains_key(CONTENT_ENCODING) {
            return body;
        }
        let vary = HeaderValue::from_static("Accept-Encoding");
        head.headers_mut().insert(VARY, vary);
        if is_taken {
            return body;
        }
        match body.try_into_bytes() {
            Ok(packed) => {
                let mut plain = Vec::new();
                if GzDecoder::new(&packed[..]).read_to_end(&mut plain).is_err() {
                    return BoxBody::new(packed);
                }
                head.headers_mut().remove(CONTENT_ENCODING);
                BoxBody::new(plain)
            }
            Err(body) => body,
        }
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
    use actix_web::{HttpResponse, test::TestRequest};
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

    #[rstest]
    #[case("gzip", Some("gzip"))]
    #[case("identity", None)]
    fn what_lies_packed_is_unpacked_for_who_does_not_take_it(
        #[case] accepted: &str,
        #[case] coding: Option<&str>,
    ) {
        let plain = b"body { margin: 0 }".repeat(100);
        let packed = once(&plain).expect("packed");
        let answer = HttpResponse::Ok()
            .insert_header((CONTENT_ENCODING, "gzip"))
            .body(packed.clone());
        let request = TestRequest::default().insert_header((ACCEPT_ENCODING, accepted));
        let sent = stored(request.to_srv_response(answer));
        let told = sent.headers().get(CONTENT_ENCODING);
        assert_eq!(told.and_then(|it| it.to_str().ok()), coding);
        let expected = if coding.is_some() { packed } else { plain };
        let body = sent.into_body().try_into_bytes().expect("it is there");
        assert_eq!(body, expected);
    }
}
