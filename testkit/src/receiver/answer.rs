//! The answers of a customer's server, good and bad.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Semaphore,
    time::sleep,
};

use super::bomb::gzip_bomb;

/// What a path answers.
#[derive(Clone, Debug)]
pub enum Answer {
    Status(u16),
    Json(Value),
    /// A status with a header and a body of any bytes.
    Full(u16, &'static str, String, Vec<u8>),
    /// These bytes, and the next request is waited for.
    Bytes(Vec<u8>),
    /// These bytes, and the connection is closed.
    Raw(&'static [u8]),
    /// An answer that comes after a while.
    After(Duration, Box<Answer>),
    /// An answer that comes once there is a permit for it.
    When(Arc<Semaphore>, Box<Answer>),
    /// Reads the request and never answers.
    Hang,
    /// Takes this long to answer 200.
    Slow(Duration),
    /// A head without end, one byte every 10 ms.
    DripHead,
    /// A body, one byte every 10 ms.
    DripBody,
    /// A body without end, as fast as it is taken.
    EndlessBody,
    /// A body that says it has 10 GB, as fast as it is taken.
    TenGigabytes,
    /// A gzip body that unpacks to 1.6 GB.
    GzipBomb,
    /// Closes with RST instead of an answer.
    Reset,
}

/// The pause between two bytes of an answer that drips.
const DRIP: Duration = Duration::from_millis(10);

impl Answer {
    /// A status, lines of header (each with its end), a body.
    pub fn with(status: u16, headers: &str, body: &[u8]) -> Self {
        Self::Bytes(whole(status, headers, body))
    }

    /// This answer after a while.
    pub fn after(self, wait: Duration) -> Self {
        Self::After(wait, Box::new(self))
    }

    /// This answer once there is a permit for it.
    pub fn when(self, permits: &Arc<Semaphore>) -> Self {
        Self::When(Arc::clone(permits), Box::new(self))
    }
}

/// Gives the answer; whether the connection can be used again.
pub(super) async fn give(
    stream: &mut BufReader<TcpStream>,
    answer: Answer,
) -> std::io::Result<bool> {
    let bytes = match answer {
        Answer::Status(status) => whole(status, "", b""),
        Answer::Json(body) => json_answer(&body),
        Answer::Full(status, name, value, body) => {
            whole(status, &format!("{name}: {value}\r\n"), &body)
        }
        Answer::Slow(time) => {
            sleep(time).await;
            json_answer(&json!({}))
        }
        Answer::Bytes(bytes) => bytes,
        Answer::After(wait, answer) => {
            sleep(wait).await;
            return Box::pin(give(stream, *answer)).await;
        }
        Answer::When(permits, answer) => {
            permits.acquire().await.expect("nobody closes it").forget();
            return Box::pin(give(stream, *answer)).await;
        }
        Answer::GzipBomb => whole(200, "content-encoding: gzip\r\n", gzip_bomb()),
        Answer::Raw(bytes) => {
            stream.write_all(bytes).await?;
            return Ok(false);
        }
        Answer::Reset => {
            stream.get_ref().set_zero_linger()?;
            return Ok(false);
        }
        Answer::Hang => {
            // Until the peer has had enough.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
            return Ok(false);
        }
        Answer::DripHead => {
            return drip(stream, b"HTTP/1.1 200 OK\r\nx-drip: ").await;
        }
        Answer::DripBody => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
            stream.write_all(head).await?;
            return drip(stream, b"").await;
        }
        Answer::EndlessBody => {
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await?;
            let chunk = [b"10000\r\n".as_slice(), &[b'x'; 65_536], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk).await?;
            }
        }
        Answer::TenGigabytes => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n";
            stream.write_all(head).await?;
            for _ in 0..10 << 14 {
                stream.write_all(&[b'x'; 65_536]).await?;
            }
            return Ok(true);
        }
    };
    stream.write_all(&bytes).await?;
    Ok(true)
}

/// One byte at a time, for ever.
async fn drip(stream: &mut BufReader<TcpStream>, first: &[u8]) -> std::io::Result<bool> {
    for byte in first.iter().chain(std::iter::repeat(&b'x')) {
        stream.write_all(&[*byte]).await?;
        sleep(DRIP).await;
    }
    Ok(false)
}

fn json_answer(body: &Value) -> Vec<u8> {
    let header = "content-type: application/json\r\n";
    whole(200, header, body.to_string().as_bytes())
}

fn whole(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Test\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}
