//! A mail server (RFC 5321) that accepts mails and misbehaves on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{aside::ServerThread, tls::acceptor, wait::eventually};

/// The treatment of one mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTreatment {
    Take,
    /// Answers the recipient's address with this code.
    Refuse(u16),
    /// Answers with this code once the whole mail has arrived.
    RefuseText(u16),
    /// Never answers.
    Hang,
    /// Closes the connection before the whole mail has arrived.
    Drop,
    /// Accepts the mail, then never answers again.
    TakeAndHang,
}

/// The encryption of a [`Postbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    None,
    /// TLS from the first byte on.
    AtOnce,
    /// Offers `STARTTLS`.
    Offered,
}

/// An accepted mail.
#[derive(Clone, Debug)]
pub struct ReceivedMail {
    pub from: String,
    pub to: String,
    /// Received values by lowercase name.
    pub headers: BTreeMap<String, String>,
    pub text: String,
    /// User name and password of the client's authentication.
    pub signed_in: Option<(String, String)>,
    pub was_encrypted: bool,
}

/// A running mail server; dropping it stops the server.
#[derive(Debug)]
pub struct Postbox {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _serving: ServerThread,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    letters: Vec<ReceivedMail>,
    posts: VecDeque<MailTreatment>,
    connections: usize,
}

impl Shared {
    /// The treatment of the next mail; the last one is repeated.
    fn next(&self) -> MailTreatment {
        let mut state = self.state.lock().unwrap();
        state.connections += 1;
        match state.posts.len() {
            0 => MailTreatment::Take,
            1 => state.posts[0],
            _ => state.posts.pop_front().unwrap(),
        }
    }
}

impl Postbox {
    /// Accepts every mail until told otherwise.
    pub fn start() -> Self {
        Self::start_on(0, Encryption::None)
    }

    /// Listens on the given port; 0 takes any.
    pub fn start_on(port: u16, encryption: Encryption) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let serving = Arc::clone(&shared);
        let aside = ServerThread::run(move || accept(listener, serving, encryption));
        Self {
            address,
            shared,
            _serving: aside,
        }
    }

    /// Sets the treatment of the next connections, in order; the last one is repeated.
    pub fn answer(&self, posts: impl IntoIterator<Item = MailTreatment>) {
        self.shared.state.lock().unwrap().posts = posts.into_iter().collect();
    }

    /// All accepted mails.
    pub fn letters(&self) -> Vec<ReceivedMail> {
        self.shared.state.lock().unwrap().letters.clone()
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.state.lock().unwrap().connections
    }

    /// Waits for at least `count` mails to an address.
    pub async fn wait_for(&self, to: &str, count: usize) -> Vec<ReceivedMail> {
        eventually(&format!("{count} mails to {to}"), async || {
            let mut letters = self.letters();
            letters.retain(|letter| letter.to == to);
            (letters.len() >= count).then_some(letters)
        })
        .await
    }

    /// Waits for at least `count` connections.
    pub async fn wait_for_connections(&self, count: usize) {
        let there = async || (self.connections() >= count).then_some(());
        eventually(&format!("{count} connections"), there).await;
    }
}

impl ReceivedMail {
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    #[track_caller]
    pub fn link(&self) -> String {
        let words = self.text.split_whitespace();
        let mut links = words.filter(|word| word.starts_with("http"));
        links.next().expect("a link").to_owned()
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>, encryption: Encryption) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        // Errors are the client's doing, and the test checks their effect.
        tokio::spawn(async move { serve(socket, &shared, encryption).await.ok() });
    }
}

async fn serve(socket: TcpStream, shared: &Shared, encryption: Encryption) -> io::Result<()> {
    let post = shared.next();
    match encryption {
        Encryption::None => Session::new(socket, false)
            .greeted(post, shared)
            .await
            .map(drop),
        Encryption::AtOnce => {
            let stream = acceptor().accept(socket).await?;
            Session::new(stream, true)
                .greeted(post, shared)
                .await
                .map(drop)
        }
        Encryption::Offered => {
            let mut session = Session::new(socket, false);
            session.offers_tls = true;
            if let Some(socket) = session.greeted(post, shared).await? {
                let stream = acceptor().accept(socket).await?;
                Session::new(stream, true).run(post, shared).await?;
            }
            Ok(())
        }
    }
}

struct Session<S> {
    stream: BufReader<S>,
    is_encrypted: bool,
    offers_tls: bool,
    from: String,
    to: String,
    signed_in: Option<(String, String)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    fn new(stream: S, is_encrypted: bool) -> Self {
        Self {
            stream: BufReader::new(stream),
            is_encrypted,
            offers_tls: false,
            from: String::new(),
            to: String::new(),
            signed_in: None,
        }
    }

    async fn say(&mut self, line: &str) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(format!("{line}\r\n").as_bytes()).await?;
        stream.flush().await
    }

    async fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    async fn greeted(mut self, post: MailTreatment, shared: &Shared) -> io::Result<Option<S>> {
        if post == MailTreatment::Hang {
            return hang().await;
        }
        self.say("220 postbox ready").await?;
        self.run(post, shared).await
    }

    /// Serves until the connection ends; returns the stream if it has to switch to TLS.
    async fn run(mut self, post: MailTreatment, shared: &Shared) -> io::Result<Option<S>> {
        while let Some(line) = self.line().await? {
            let upper = line.to_uppercase();
            let argument = line.split_once(':').map_or("", |(_, rest)| rest);
            let address = argument.trim().trim_start_matches('<');
            let address = address.split('>').next().unwrap_or_default().to_owned();
            match upper.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" => {
                    let tls = if self.offers_tls {
                        "250-STARTTLS\r\n"
                    } else {
                        ""
                    };
                    self.say(&format!(
                        "250-postbox\r\n{tls}250-8BITMIME\r\n250 AUTH PLAIN"
                    ))
                    .await?;
                }
                "STARTTLS" if self.offers_tls => {
                    self.say("220 go ahead").await?;
                    return Ok(Some(self.stream.into_inner()));
                }
                "AUTH" => {
                    let plain = line.rsplit(' ').next().unwrap_or_default();
                    let plain = STANDARD.decode(plain).unwrap_or_default();
                    let plain = String::from_utf8(plain).unwrap();
                    let mut parts = plain.split('\0').skip(1).map(str::to_owned);
                    self.signed_in = parts.next().zip(parts.next());
                    self.say("235 welcome").await?;
                }
                "MAIL" => {
                    self.from = address;
                    self.say("250 ok").await?;
                }
                "RCPT" => {
                    // Repeats the address, as real servers do.
                    let answer = match post {
                        MailTreatment::Refuse(code) => format!("{code} <{address}>: not now"),
                        _ => "250 ok".to_owned(),
                    };
                    self.to = address;
                    self.say(&answer).await?;
                }
                "DATA" => {
                    self.say("354 go on").await?;
                    if self.data(post, shared).await?.is_none() {
                        return Ok(None);
                    }
                }
                "QUIT" => {
                    self.say("221 bye").await?;
                    return Ok(None);
                }
                _ => self.say("500 what?").await?,
            }
        }
        Ok(None)
    }

    /// Returns `None` if the connection has ended.
    async fn data(&mut self, post: MailTreatment, shared: &Shared) -> io::Result<Option<()>> {
        let mut lines = Vec::new();
        loop {
            let Some(line) = self.line().await? else {
                return Ok(None);
            };
            if line == "." {
                break;
            }
            if post == MailTreatment::Drop {
                return Ok(None);
            }
            lines.push(line.strip_prefix('.').map(str::to_owned).unwrap_or(line));
        }
        if let MailTreatment::RefuseText(code) = post {
            self.say(&format!("{code} not for <{}>", self.to)).await?;
            return Ok(Some(()));
        }
        let letter = self.letter(&lines);
        shared.state.lock().unwrap().letters.push(letter);
        self.say("250 taken").await?;
        if post == MailTreatment::TakeAndHang {
            return hang().await;
        }
        Ok(Some(()))
    }

    fn letter(&self, lines: &[String]) -> ReceivedMail {
        let blank = lines
            .iter()
            .position(String::is_empty)
            .unwrap_or(lines.len());
        let (head, body) = lines.split_at(blank);
        let mut headers = BTreeMap::new();
        let unfolded = head.join("\n").replace("\n ", " ").replace("\n\t", " ");
        for line in unfolded.lines() {
            let (name, value) = line.split_once(':').expect("a header");
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let encoding = headers.get("content-transfer-encoding");
        let text = decoded(encoding.map_or("7bit", String::as_str), body);
        ReceivedMail {
            from: self.from.clone(),
            to: self.to.clone(),
            headers,
            text,
            signed_in: self.signed_in.clone(),
            was_encrypted: self.is_encrypted,
        }
    }
}

/// Waits until the test ends.
async fn hang<T>() -> io::Result<T> {
    std::future::pending().await
}

/// Decodes a text by its encoding (RFC 2045 section 6).
fn decoded(encoding: &str, lines: &[String]) -> String {
    let bytes = match encoding {
        "base64" => STANDARD.decode(lines.concat()).unwrap(),
        "quoted-printable" => {
            let joined = lines.join("\n").replace("=\n", "");
            let mut parts = joined.split('=');
            let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
            for part in parts {
                bytes.extend(hex::decode(&part[..2]).unwrap());
                bytes.extend(&part.as_bytes()[2..]);
            }
            bytes
        }
        _ => lines.join("\n").into_bytes(),
    };
    String::from_utf8(bytes).unwrap().trim().to_owned()
}
