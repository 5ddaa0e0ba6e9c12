//! The answers of a customer's server, good and bad.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
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
    /// These bytes, and the connection is closed.
    Raw(&'static [u8]),
    /// Reads the request and never answers.
    Hang,
    /// Takes this long to answer 200.
    Slow(Duration),
    /// One byte of header a second.
    DripHead,
    /// One byte of body a second.
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

/// Gives the answer; whether the connection can be used again.
pub async fn give(stream: &mut BufReader<TcpStream>, answer: Answer) -> std::io::Result<bool> {
    match answer {
        Answer::Status(status) => write_whole(stream, status, "x-test: 1", b"").await?,
        Answer::Json(body) => {
            let body = body.to_string();
            write_whole(
                stream,
                200,
                "content-type: application/json",
                body.as_bytes(),
            )
            .await?;
        }
        Answer::Full(status, name, value, body) => {
            write_whole(stream, status, &format!("{name}: {value}"), &body).await?;
        }
        Answer::Slow(time) => {
            sleep(time).await;
            write_whole(stream, 200, "x-test: 1", json!({}).to_string().as_bytes()).await?;
        }
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
            stream.write_all(b"HTTP/1.1 200 OK\r\nx-drip: ").await?;
            drip(stream).await?;
        }
        Answer::DripBody => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                .await?;
            drip(stream).await?;
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
        }
        Answer::GzipBomb => {
            write_whole(stream, 200, "content-encoding: gzip", gzip_bomb()).await?;
        }
    }
    Ok(true)
}

async fn drip(stream: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    loop {
        stream.write_all(b"x").await?;
        sleep(Duration::from_secs(1)).await;
    }
}

async fn write_whole(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    header: &str,
    body: &[u8],
) -> std::io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Test\r\n{header}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await
}
