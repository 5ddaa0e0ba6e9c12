//! Free ports for programs that need a fixed one.

use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// Below Linux's ephemeral ports (32768 and above), so that no other test's socket takes one, and below the ports
/// of RTP (20000 and above).
const FIRST: u32 = 10_000;
const COUNT: u32 = 10_000;
/// Distance of the first ports of processes with consecutive ids.
const APART: u32 = 1_009;

/// Number of ports that this process has tried.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// A port that is free for TCP and UDP, and that this process has not returned before.
pub fn free_port() -> u16 {
    let first = process::id() % COUNT * APART;
    (0..COUNT)
        .map(|_| {
            let step = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
            let port = FIRST + first.wrapping_add(step) % COUNT;
            u16::try_from(port).unwrap()
        })
        .find(|port| {
            let address = (Ipv4Addr::LOCALHOST, *port);
            TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
        })
        .expect("a free port")
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn no_two_threads_are_given_the_same_port_nor_one_that_the_system_draws() {
        let threads: Vec<_> = (0..8)
            .map(|_| thread::spawn(|| (0..50).map(|_| free_port()).collect::<Vec<_>>()))
            .collect();
        let ports: Vec<u16> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert!(ports.iter().all(|port| (10_000..20_000).contains(port)));
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), ports.len());
    }
}
