//! Answers of every kind, in arbitrary pieces, and bytes that are no answer.

use proptest::prelude::*;

use super::{head::HEADERS_MAX, *};

/// The result of an answer that came in these pieces.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    plain: Vec<u8>,
    done: bool,
    keeps: bool,
    left: Vec<u8>,
}

fn in_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    closed: bool,
) -> Result<Read, InvalidAnswer> {
    let (mut answer, mut came, mut plain) = (AnswerReader::new(), BytesMut::new(), BytesMut::new());
    for piece in pieces {
        came.extend_from_slice(piece);
        answer.read(&mut came, &mut plain)?;
    }
    if closed {
        answer.closed(&mut plain);
    }
    Ok(Read {
        plain: body(&plain),
        done: answer.is_done(),
        keeps: answer.keeps(),
        left: came.to_vec(),
    })
}

fn read(bytes: &[u8]) -> Result<Read, InvalidAnswer> {
    in_pieces([bytes], true)
}

/// The rewritten answer with chunks joined: their boundaries are arbitrary.
fn body(plain: &[u8]) -> Vec<u8> {
    let Some(end) = plain.windows(4).position(|w| w == b"\r\n\r\n") else {
        return plain.to_vec();
    };
    let (head, mut rest) = plain.split_at(end + 4);
    let mut whole = head.to_vec();
    if !head.ends_with(b"chunked\r\n\r\n") {
        whole.extend_from_slice(rest);
        return whole;
    }
    while let Some(line) = rest.iter().position(|byte| *byte == b'\n') {
        let size = std::str::from_utf8(&rest[..line - 1]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("digits");
        whole.extend_from_slice(&rest[line + 1..line + 1 + size]);
        rest = &rest[line + 1 + size + 2..];
    }
    assert!(rest.is_empty(), "half a chunk was written");
    whole
}

fn text(read: Result<Read, InvalidAnswer>) -> (String, bool, bool) {
    let read = read.expect("an answer");
    assert!(read.left.is_empty(), "{read:?}");
    let plain = String::from_utf8(read.plain).expect("text");
    (plain.replace("\r\n", "|"), read.done, read.keeps)
}

#[test]
fn an_answer_is_written_anew_in_the_plainest_form() {
    for (came, plain, keeps) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\n\r\nok"[..], "HTTP/1.1 200 |content-length: 2||ok", true),
        (b"HTTP/1.1 200 OK\nContent-Length : 2\n\nok", "HTTP/1.1 200 |content-length: 2||ok", true),
        (b"HTTP/1.1 200\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 200 |content-length: 2||ok", true),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 |content-length: 0||", true),
        (b"HTTP/1.1 304 X\r\ncontent-length: 7\r\n\r\n", "HTTP/1.1 304 |connection: close|content-length: 0||", false),
        (
            b"HTTP/1.1 503 X\r\nRetry-After: 7\r\nRetry-After: 9\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 503 |retry-after: 7|content-length: 0||",
            true,
        ),
        (
            b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 2\r\n\r\nok",
            "HTTP/1.1 200 |connection: close|content-length: 2||ok",
            false,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1 ;a=b\r\no\r\n01\r\nk\r\n0\r\nx-sum: 1\r\n\r\n",
            "HTTP/1.1 200 |transfer-encoding: chunked||ok",
            true,
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 |connection: close|transfer-encoding: chunked||ok",
            false,
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.1 200 |connection: close|transfer-encoding: chunked||ok", false),
        (b"HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 |connection: close|transfer-encoding: chunked||", false),
        (
            b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
            "HTTP/1.1 200 |connection: close|content-length: 2||ok",
            false,
        ),
    ] {
        let shown = String::from_utf8_lossy(came).into_owned();
        assert_eq!(text(read(came)), (plain.to_owned(), true, keeps), "{shown}");
    }
}

#[test]
fn interim_answers_are_skipped_up_to_a_bound() {
    let last = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for interim in [
        &b"HTTP/1.1 100 Continue\r\n\r\n"[..],
        b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\ncontent-length: 5\r\n\r\n",
    ] {
        let most = [interim.repeat(32), last.to_vec()].concat();
        let plain = "HTTP/1.1 200 |content-length: 2||ok".to_owned();
        assert_eq!(text(read(&most)), (plain, true, true));
        let more = [interim.repeat(33), last.to_vec()].concat();
        assert_eq!(read(&more), Err(InvalidAnswer));
    }
    let large = [
        b"HTTP/1.1 103 X\r\nx: ".to_vec(),
        vec![b'y'; 40_000],
        b"\r\n\r\n".to_vec(),
    ]
    .concat();
    assert!(read(&[large.as_slice(), last].concat()).is_ok());
    assert_eq!(
        read(&[large.as_slice(), &large, last].concat()),
        Err(InvalidAnswer)
    );
}

#[test]
fn what_is_no_answer_is_refused_as_soon_as_it_shows() {
    for came in [
        &b"SSH"[..],
        b"\r\n",
        b"HTTP/2",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/1.1 9999 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1 1\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n11111111111111111\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;a\rb\r\n",
    ] {
        let shown = String::from_utf8_lossy(came).into_owned();
        assert_eq!(in_pieces([came], false), Err(InvalidAnswer), "{shown}");
    }
}

#[test]
fn heads_extensions_and_trailers_are_bounded() {
    let head = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
    let endless = [head.as_slice(), &vec![b'y'; HEADS_BYTES_MAX]].concat();
    assert_eq!(in_pieces([endless.as_slice()], false), Err(InvalidAnswer));
    let many = [
        &b"HTTP/1.1 200 OK\r\n"[..],
        &b"x: y\r\n".repeat(HEADERS_MAX + 1),
        b"\r\n",
    ]
    .concat();
    assert_eq!(in_pieces([many.as_slice()], false), Err(InvalidAnswer));

    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let extras = |extensions: usize, trailers: usize| {
        let extension = [
            b"1;".to_vec(),
            vec![b'e'; extensions],
            b"\r\nx\r\n".to_vec(),
        ]
        .concat();
        let trailer = [vec![b't'; trailers], b"\r\n\r\n".to_vec()].concat();
        [&chunked[..], &extension, b"0\r\n", &trailer].concat()
    };
    assert!(read(&extras(8_000, 8_383)).is_ok_and(|read| read.done));
    for (extensions, trailers) in [(8_000, 8_384), (EXTRAS_BYTES_MAX, 0), (0, EXTRAS_BYTES_MAX)] {
        assert_eq!(read(&extras(extensions, trailers)), Err(InvalidAnswer));
    }
    let dripped = [&chunked[..], &b"1;eeeeeeee\r\nx\r\n".repeat(2_000)].concat();
    assert_eq!(in_pieces([dripped.as_slice()], false), Err(InvalidAnswer));
    // Without a line end: refused before more than the limit is buffered.
    let line = [
        &chunked[..],
        b"1;",
        &vec![b'e'; EXTRAS_BYTES_MAX + SIZE_DIGITS_MAX + 2],
    ]
    .concat();
    assert_eq!(in_pieces([line.as_slice()], false), Err(InvalidAnswer));
}

#[test]
fn what_breaks_off_is_not_done_and_what_follows_is_left() {
    for half in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
    ] {
        let read = read(half).expect("nothing wrong so far");
        assert!(!read.done, "{read:?}");
    }
    let twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".repeat(2);
    let left = read(&twice).expect("an answer").left;
    assert_eq!(left, twice[twice.len() / 2..]);
}

proptest! {
    #[test]
    fn where_packets_are_cut_makes_no_difference(
        interims in 0..3_usize,
        body in proptest::collection::vec(any::<u8>(), 0..40),
        kind in 0..3,
        after in proptest::collection::vec(any::<u8>(), 0..4),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let mut came = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(interims);
        match kind {
            0 => came.extend(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).bytes()),
            1 => came.extend(b"HTTP/1.1 200 OK\r\n\r\n"),
            _ => {
                came.extend(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
                for piece in body.chunks(7) {
                    came.extend(format!("{:X};e=1\r\n", piece.len()).bytes());
                    came.extend(piece);
                    came.extend(b"\r\n");
                }
                came.extend(b"0\r\nx-t: 1\r\n\r\n");
            }
        }
        if kind != 2 {
            came.extend(&body);
        }
        came.extend(&after);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(came.len())).collect();
        at.extend([0, came.len()]);
        at.sort_unstable();
        let pieces = at.windows(2).map(|w| &came[w[0]..w[1]]);
        let read = in_pieces(pieces, true).expect("an answer");
        prop_assert!(read.done);
        prop_assert_eq!(&read, &in_pieces([came.as_slice()], true).expect("an answer"));
        let expected = if kind == 1 { [body.as_slice(), &after].concat() } else { body };
        prop_assert!(read.plain.ends_with(&expected));
        if kind != 1 {
            prop_assert_eq!(read.left, after);
        }
    }

    #[test]
    fn nothing_that_comes_is_too_much(
        begins in any::<bool>(),
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20),
    ) {
        let begin: &[u8] = if begins { b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" } else { b"" };
        let _ = in_pieces(std::iter::once(begin).chain(pieces.iter().map(Vec::as_slice)), true);
    }
}
