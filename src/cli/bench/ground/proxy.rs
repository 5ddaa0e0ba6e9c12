//! A TCP proxy between server and database that adds latency.
//!
//! It sleeps on threads, because the runtime's timers have a resolution of a millisecond. Data in transit does not
//! delay the data behind it, as on a wire.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::cli::bench::{Result, failed};

const ROOM: usize = 64 * 1024;

/// Listens until the process ends and forwards everything to `target`, delayed by `one_way` in each direction.
pub fn start(target: SocketAddr, one_way: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    thread::spawn(move || {
        for near in listener.incoming().map_while(std::result::Result::ok) {
            // If the connection to the target fails, the incoming connection is closed.
            let _ = connect(near, target, one_way);
        }
    });
    Ok(address)
}

fn connect(near: TcpStream, target: SocketAddr, one_way: Duration) -> std::io::Result<()> {
    let far = TcpStream::connect(target)?;
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
    }
    pump(near.try_clone()?, far.try_clone()?, one_way);
    pump(far, near, one_way);
    Ok(())
}

/// Forwards data in one direction until either side closes.
fn pump(mut from: TcpStream, mut to: TcpStream, later: Duration) {
    let (pass, passed) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; ROOM];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let due = Instant::now() + later;
            if pass.send((due, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in passed {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The connection may be closed already.
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_comes_whole_and_not_before_its_time() {
        let target = TcpListener::bind("127.0.0.1:0").expect("a port");
        let way = Duration::from_millis(20);
        let address = start(target.local_addr().expect("an address"), way).expect("it listens");
        let echo = thread::spawn(move || {
            let (mut socket, _) = target.accept().expect("a connection");
            let mut said = [0; 5];
            socket.read_exact(&mut said).expect("read");
            socket.write_all(&said).expect("written");
        });
        let mut socket = TcpStream::connect(address).expect("connects");
        let began = Instant::now();
        socket.write_all(b"hello").expect("written");
        let mut heard = String::new();
        socket.read_to_string(&mut heard).expect("read to the end");
        assert_eq!(heard, "hello");
        assert!(began.elapsed() >= way * 2);
        echo.join().expect("it ended");
    }
}
