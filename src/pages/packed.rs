//! Compresses answers with gzip.

use std::{
    io::{Read, Write},
    mem,
};

use actix_web::{
    body::{BoxBody, MessageBody},
    dev::ServiceResponse,
    http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY},
};
use bytes::Bytes;
use flate2::{
    Compression, Crc, GzBuilder,
    read::GzDecoder,
    write::{DeflateEncoder, GzEncoder},
};
use futures_util::{Stream, StreamExt, stream};
use rand::RngExt as _;

use super::headers::header;

/// The longest random comment in a compressed page.
const COMMENT_MAX: usize = 64;
/// A gzip header without time, name and system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// An empty last block.
const DEFLATE_END: [u8; 2] = [3, 0];

/// True if the client accepts gzip.
pub fn is_taken(headers: &HeaderMap) -> bool {
    let accepted = header(headers, &ACCEPT_ENCODING).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let (coding, weight) = coding.split_once(';').unwrap_or((coding, ""));
        coding.trim().eq_ignore_ascii_case("gzip") && !matches!(weight.trim(), "q=0" | "q=0.0")
    })
}

/// Compresses a stream piece by piece, so that each can be read when it arrives. Pieces are compressed separately: a shared
/// window would cost some hundred kilobytes for each open page. They contain no secrets, so their sizes may be known.
pub fn stream(pieces: impl Stream<Item = Bytes>) -> impl Stream<Item = Bytes> {
    let begin = stream::once(async { Bytes::from_static(&GZIP_HEAD) });
    let state = (Box::pin(pieces), Some(Crc::new()));
    let rest = stream::unfold(state, async |(mut pieces, crc)| {
        let mut crc = crc?;
        Some(match pieces.next().await {
            Some(piece) => {
                crc.update(&piece);
                (piece_packed(&piece), (pieces, Some(crc)))
            }
            None => {
                let mut end = DEFLATE_END.to_vec();
                end.extend(crc.sum().to_le_bytes());
                end.extend(crc.amount().to_le_bytes());
                (end.into(), (pieces, None))
            }
        })
    });
    begin.chain(rest)
}

/// Compresses data into whole blocks of an unfinished deflate stream.
fn piece_packed(plain: &[u8]) -> Bytes {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(plain).and_then(|()| encoder.flush());
    // Writing to a vector cannot fail.
    packed.map_or_else(|_| Bytes::new(), |()| mem::take(encoder.get_mut()).into())
}

/// Compresses static content at the best level.
pub fn once(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    write(GzEncoder::new(Vec::new(), Compression::best()), plain)
}

fn write(mut encoder: GzEncoder<Vec<u8>>, plain: &[u8]) -> std::io::Result<Vec<u8>> {
    encoder.write_all(plain)?;
    encoder.finish()
}

/// Compresses a page if the client accepts gzip. Streamed answers stay unchanged.
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

/// Decompresses a static asset for clients that do not accept gzip.
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

/// An encoder with a comment of random length. It keeps a page's size from revealing whether text in its address
/// also occurs in the page (BREACH).
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

    #[actix_web::test]
    async fn a_stream_is_read_piece_by_piece_while_it_goes_on() {
        let pieces = [b"data: one\n\n".to_vec(), b"<p>Halo</p>".repeat(50)];
        let bytes = pieces.clone().map(Bytes::from);
        let packed: Vec<Bytes> = super::stream(stream::iter(bytes)).collect().await;
        assert!(packed[2].len() * 4 < pieces[1].len(), "{packed:?}");
        let mut decoder = flate2::write::GzDecoder::new(Vec::new());
        decoder.write_all(&packed[0]).expect("the head");
        for (piece, packed) in pieces.iter().zip(&packed[1..]) {
            decoder.write_all(packed).expect("gzip");
            decoder.flush().expect("gzip");
            assert_eq!(mem::take(decoder.get_mut()), *piece);
        }
        decoder.write_all(&packed[3]).expect("gzip");
        decoder.finish().expect("the sum is right");
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
