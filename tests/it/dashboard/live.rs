//! Live pages and event streams: their limits, and the release of a closed stream's seat.

use dikala_testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::support::raw_socket::address;

/// Time within which a closed stream's seat becomes free.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of a tenant's event streams.
const STREAMS: usize = 10;
/// Maximum number of a session's live pages.
const PAGES: usize = 6;

/// A stream read by hand, so that dropping it closes its socket.
struct RawStream {
    socket: TcpStream,
    seen: String,
}

impl RawStream {
    /// Requests the stream and reads the head of the answer.
    async fn open(base: &str, path: &str, header: (&str, &str)) -> Self {
        let mut socket = TcpStream::connect(address(base)).await.unwrap();
        let (name, value) = header;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{name}: {value}\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut followed = Self {
            socket,
            seen: String::new(),
        };
        assert!(followed.hears("\r\n\r\n").await, "no answer");
        followed
    }

    fn status(&self) -> u16 {
        self.seen.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// True if this text arrives before the stream ends.
    async fn hears(&mut self, words: &str) -> bool {
        let mut buffer = [0; 4096];
        while !self.seen.contains(words) {
            let read = self.socket.read(&mut buffer);
            let read = tokio::time::timeout(Duration::from_secs(30), read).await;
            let read = read.unwrap_or_else(|_| panic!("{words:?} is not in {}", self.seen));
            match read.unwrap_or_default() {
                0 => return false,
                more => self.seen += &String::from_utf8_lossy(&buffer[..more]),
            }
        }
        true
    }
}

fn cookies(browser: &Visitor) -> String {
    let cookies = browser.cookies().into_iter();
    let cookies: Vec<String> = cookies
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    cookies.join("; ")
}

#[actix_web::test]
async fn pages_and_streams_that_were_left_keep_no_seat_while_events_flow() {
    let world = world!(Sqlite);
    let (tenant, base) = (&world.tenant, &*world.server.http);
    let owner = owner(&world).await;
    let cookies = cookies(&owner.browser);
    let bridge = tenant.bridge(Http).await;
    let over = bridge.ring(&tenant.did).await;
    bridge.hang_up(&over).await;
    let page = format!("/dashboard/live?of={over}");
    let api = "/api/v1/events/stream";
    let left = async |path: &str, header: (&str, &str)| {
        let mut followed = RawStream::open(base, path, header).await;
        (followed.status() == 200).then_some(())?;
        assert!(followed.hears("id: ").await);
        Some(())
    };
    let visits = async {
        for visit in 0..50 {
            let seat = async || left(&page, ("cookie", &cookies)).await;
            within(FREE_WITHIN, &format!("page {visit} to be live"), seat).await;
        }
        for visit in 0..50 {
            let seat = async || left(api, ("x-api-key", &tenant.key)).await;
            within(FREE_WITHIN, &format!("stream {visit} to open"), seat).await;
        }
    };
    let events = async {
        loop {
            let call = bridge.ring(&tenant.did).await;
            bridge.hang_up(&call).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = visits => {}
        () = events => {}
    }
    // All seats are free again. Pages and streams have separate seats.
    let seats = async || {
        let mut taken = Vec::new();
        for _ in 0..STREAMS {
            let stream = RawStream::open(base, api, ("x-api-key", &tenant.key)).await;
            taken.push((stream.status() == 200).then_some(stream)?);
        }
        Some(taken)
    };
    let _taken = within(FREE_WITHIN, "every seat to be free", seats).await;
    let one_more = RawStream::open(base, api, ("x-api-key", &tenant.key)).await;
    assert_eq!(one_more.status(), 429);
    let page = RawStream::open(base, &page, ("cookie", &cookies)).await;
    assert_eq!(page.status(), 200, "{}", page.seen);
}

#[actix_web::test]
async fn one_more_live_page_of_a_session_closes_its_oldest_and_says_so() {
    let world = world!(Sqlite);
    let base = &*world.server.http;
    let owner = owner(&world).await;
    let other = world.another_tenant(10).await;
    let other = somebody(&world.server, &other.id, "other@example.com", "owner").await;
    let mut untouched = RawStream::open(
        base,
        "/dashboard/live?of=home",
        ("cookie", &cookies(&other.browser)),
    )
    .await;
    let cookies = cookies(&owner.browser);
    let mut pages = Vec::new();
    for _ in 0..=PAGES {
        let mut page =
            RawStream::open(base, "/dashboard/live?of=calls", ("cookie", &cookies)).await;
        assert!(page.hears("id: ").await);
        pages.push(page);
    }
    assert!(pages[0].hears("event: closed").await);
    assert!(!pages[0].hears("anything after that").await);
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.ring(&world.tenant.did).await;
    for page in &mut pages[1..] {
        assert!(page.hears(&call).await, "{}", page.seen);
    }
    drop(bridge);
    let out = other.browser.open("/dashboard").await;
    other.browser.submit(&out.form("/dashboard/sign-out")).await;
    assert!(!untouched.hears("event: closed").await);
}

#[actix_web::test]
async fn a_call_that_is_over_and_told_needs_no_stream() {
    let world = world!(Sqlite);
    let owner = owner(&world).await;
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    let path = format!("/dashboard/calls/{call}");
    let live = format!("/dashboard/live?of={call}");
    let running = owner.browser.open(&path).await;
    running.assert_shows("Live – Pause");
    let mut stream = RawStream::open(
        &world.server.http,
        &live,
        ("cookie", &cookies(&owner.browser)),
    )
    .await;
    bridge.hang_up(&call).await;
    let said = json!({"callId": call, "summary": "About an order.", "turns": [{"role": "agent", "text": "Halo?"}]});
    bridge.ok("call.transcript", said).await;
    assert!(stream.hears("event: over").await);
    assert!(!stream.hears("anything after that").await);
    let page = owner.browser.open(&path).await;
    page.assert_shows("About an order.");
    page.assert_hides("data-live");
}
