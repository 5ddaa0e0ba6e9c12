//! A phone behind one NAT or two, in network namespaces: the edge's network, routers that translate, and the phone's.

use std::{fs::File, os::fd::AsFd, process::Command, thread};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::UdpSocket;

use super::need;

/// The address of the edge.
pub const EDGE: &str = "203.0.113.1";
/// The address of all phones behind the router, as others see it.
pub const ROUTER: &str = "203.0.113.2";
/// Somebody else in the edge's network.
pub const STRANGER: &str = "203.0.113.66";
/// The address behind a provider's NAT (RFC 6598): the phone's, or that of its home's router.
const BEHIND_PROVIDER: &str = "100.64.0.2";
/// The address of a phone behind a home's router.
const AT_HOME: &str = "192.168.7.2";

/// The manner in which the router maps the phone's ports (RFC 4787).
#[derive(Debug, Clone, Copy)]
pub enum NatBehaviour {
    /// Another port at random for each destination, which alone gets through.
    Symmetric,
    /// The same port for every destination, and everybody gets through: full cone.
    EndpointIndependent,
    /// Symmetric, with a home's router before it that is symmetric, too.
    Twice,
}

/// Commands that build the networks.
const NETWORKS: &str = "
ip netns add E
ip netns add R
ip netns add P
ip link add e0 netns E type veth peer name r0 netns R
ip -n E addr add 203.0.113.1/24 dev e0
ip -n R addr add 203.0.113.2/24 dev r0
ip -n R addr add 203.0.113.66/24 dev r0
ip -n E link set lo up
ip -n E link set e0 up
ip -n R link set r0 up
ip netns exec R sysctl -qw net.ipv4.ip_forward=1
ip netns exec R nft add table ip nat
ip netns exec R nft add chain ip nat out { type nat hook postrouting priority 100 ; }
";

/// The phone's network is the provider's.
const ALONE: &str = "
ip link add p0 netns P type veth peer name r1 netns R
ip -n R addr add 100.64.0.1/24 dev r1
ip -n P addr add 100.64.0.2/24 dev p0
ip -n R link set r1 up
ip -n P link set p0 up
ip -n P route add default via 100.64.0.1
";

/// A home's router between the provider's network and the phone's.
const HOME: &str = "
ip netns add H
ip link add h0 netns H type veth peer name r1 netns R
ip link add p0 netns P type veth peer name h1 netns H
ip -n R addr add 100.64.0.1/24 dev r1
ip -n H addr add 100.64.0.2/24 dev h0
ip -n H addr add 192.168.7.1/24 dev h1
ip -n P addr add 192.168.7.2/24 dev p0
ip -n R link set r1 up
ip -n H link set h0 up
ip -n H link set h1 up
ip -n P link set p0 up
ip -n H route add default via 100.64.0.1
ip -n P route add default via 192.168.7.1
ip netns exec H sysctl -qw net.ipv4.ip_forward=1
ip netns exec H nft add table ip nat
ip netns exec H nft add chain ip nat out { type nat hook postrouting priority 100 ; }
ip netns exec H nft add rule ip nat out ip saddr 192.168.7.0/24 masquerade random
";

const SYMMETRIC: &str = "
ip netns exec R nft add rule ip nat out ip saddr 100.64.0.0/10 masquerade random
";

const ENDPOINT_INDEPENDENT: &str = "
ip netns exec R nft add rule ip nat out ip saddr 100.64.0.0/10 snat to 203.0.113.2
ip netns exec R nft add chain ip nat in { type nat hook prerouting priority -100 ; }
ip netns exec R nft add rule ip nat in iif r0 ip daddr 203.0.113.2 meta l4proto udp dnat to 100.64.0.2
";

/// Removed with the value.
#[derive(Debug)]
pub struct NatLab {
    name: String,
    /// The address of the phone in its own network.
    pub phone: &'static str,
}

impl NatLab {
    /// `None`, with a note, where no namespaces can be made, as in most containers.
    pub fn new(nat: NatBehaviour) -> Option<Self> {
        if !["ip", "nft", "sysctl"].into_iter().all(need) {
            return None;
        }
        let (phone, inner, outer) = match nat {
            NatBehaviour::Symmetric => (BEHIND_PROVIDER, ALONE, SYMMETRIC),
            NatBehaviour::EndpointIndependent => (BEHIND_PROVIDER, ALONE, ENDPOINT_INDEPENDENT),
            NatBehaviour::Twice => (AT_HOME, HOME, SYMMETRIC),
        };
        let lab = Self {
            name: format!("dikala-{:x}", rand::random::<u32>()),
            phone,
        };
        let commands = [NETWORKS, inner, outer].map(str::trim);
        for line in commands.into_iter().flat_map(str::lines) {
            let words = line.split(' ').map(|word| lab.named(word));
            let words: Vec<String> = words.collect();
            let done = Command::new(&words[0]).args(&words[1..]).output().unwrap();
            if !done.status.success() {
                let error = String::from_utf8_lossy(&done.stderr);
                // The first command shows whether this user and this machine may do it at all.
                assert!(line == "ip netns add E", "{line}: {error}");
                eprintln!("skipped: no network namespaces can be made here: {error}");
                return None;
            }
        }
        Some(lab)
    }

    fn named(&self, word: &str) -> String {
        match word {
            "E" | "R" | "H" | "P" => format!("{}-{word}", self.name),
            _ => word.to_owned(),
        }
    }

    /// Runs this in the network of the edge (`E`), the router (`R`) or the phone (`P`). Threads that it starts are there, too.
    pub fn inside<T: Send>(&self, network: &str, run: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.named(network));
        let entered = move || {
            let space = File::open(path).unwrap();
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            run()
        };
        let ran = thread::scope(|scope| scope.spawn(entered).join());
        ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A socket of the phone, or of the stranger. It stays in that network, whoever uses it.
    pub fn socket(&self, address: &str) -> UdpSocket {
        let network = if address == self.phone { "P" } else { "R" };
        let socket = self.inside(network, || std::net::UdpSocket::bind((address, 0)).unwrap());
        socket.set_nonblocking(true).unwrap();
        UdpSocket::from_std(socket).unwrap()
    }
}

impl Drop for NatLab {
    fn drop(&mut self) {
        for network in ["E", "R", "H", "P"] {
            let name = self.named(network);
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}
