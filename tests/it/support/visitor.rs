//! A simulated browser without scripts: it keeps cookies, follows redirects, reads and submits forms, and sends
//! browsers' headers.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use awc::{
    Client, Connector,
    http::{Method, header::HeaderMap},
};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// Maximum size of a page, uncompressed and without assets.
pub const PAGE_BYTES: usize = 30 * 1024;

/// A person's browser; clones share their cookies, like tabs.
#[derive(Clone)]
pub struct Visitor {
    client: Client,
    base: String,
    cookies: Rc<RefCell<BTreeMap<String, String>>>,
    headers: Vec<(String, String)>,
    /// The `Origin` header of its posts.
    pub origin: Option<String>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct VisitedPage {
    /// Its path after redirects.
    pub path: String,
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as received, possibly compressed.
    pub body: Vec<u8>,
    pub html: String,
}

/// A form with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HtmlForm {
    pub action: String,
    pub method: String,
    pub fields: Vec<(String, String)>,
}

impl Visitor {
    pub fn new(base: &str) -> Self {
        let connector = Connector::new().timeout(Duration::from_secs(10));
        let client = Client::builder()
            .connector(connector)
            .timeout(Duration::from_secs(60))
            .disable_redirects()
            .finish();
        Self {
            client,
            base: base.to_owned(),
            cookies: Rc::default(),
            headers: Vec::new(),
            origin: Some(base.to_owned()),
        }
    }

    /// Another browser at the same service.
    pub fn another(&self) -> Self {
        Self::new(&self.base)
    }

    /// The same browser with an additional header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its cookies.
    pub fn cookies(&self) -> BTreeMap<String, String> {
        self.cookies.borrow().clone()
    }

    /// Sets a cookie.
    pub fn set_cookie(&self, name: &str, value: &str) {
        self.cookies
            .borrow_mut()
            .insert(name.to_owned(), value.to_owned());
    }

    /// Opens a path or URL and follows redirects.
    pub async fn open(&self, path: &str) -> VisitedPage {
        let page = self.fetch(path).await;
        self.follow(page).await
    }

    /// Opens a path without following redirects.
    pub async fn fetch(&self, path: &str) -> VisitedPage {
        self.send(Method::GET, path, None).await
    }

    /// Submits a form and follows redirects.
    pub async fn submit(&self, form: &HtmlForm) -> VisitedPage {
        let page = self.post(form).await;
        self.follow(page).await
    }

    /// Submits a form without following redirects.
    pub async fn post(&self, form: &HtmlForm) -> VisitedPage {
        assert_eq!(form.method, "post", "{form:?}");
        let pairs = form
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish();
        self.send(Method::POST, &form.action, Some(body)).await
    }

    /// Opens a page, fills in its form and submits it.
    pub async fn fill(&self, path: &str, action: &str, values: &[(&str, &str)]) -> VisitedPage {
        let page = self.open(path).await;
        assert_eq!(page.status, 200, "{}", page.html);
        let form = values
            .iter()
            .fold(page.form(action), |form, (name, value)| {
                form.set(name, value)
            });
        self.submit(&form).await
    }

    async fn follow(&self, mut page: VisitedPage) -> VisitedPage {
        for _ in 0..5 {
            let Some(next) = page.header("location").filter(|_| page.status == 303) else {
                return page;
            };
            let next = next.to_owned();
            page = self.fetch(&next).await;
        }
        panic!("led around: {page:?}");
    }

    async fn send(&self, method: Method, path: &str, body: Option<String>) -> VisitedPage {
        let path = path.strip_prefix(&self.base).unwrap_or(path).to_owned();
        let path = path.split('#').next().unwrap().to_owned();
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .no_decompress()
            .force_close();
        let cookies: Vec<String> = self
            .cookies
            .borrow()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            request = request.insert_header(("cookie", cookies.join("; ")));
        }
        for (name, value) in &self.headers {
            request = request.insert_header((name.as_str(), value.as_str()));
        }
        let sent = match body {
            None => request.send().await,
            Some(body) => {
                if let Some(origin) = &self.origin {
                    request = request.insert_header(("origin", origin.as_str()));
                }
                let form = ("content-type", "application/x-www-form-urlencoded");
                request.insert_header(form).send_body(body).await
            }
        };
        let mut response = sent.unwrap_or_else(|fault| panic!("{path}: {fault}"));
        let bytes = response.body().limit(4 << 20).await.unwrap();
        self.keep_cookies(response.headers());
        VisitedPage {
            path,
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            html: String::from_utf8_lossy(&bytes).into_owned(),
            body: bytes.to_vec(),
        }
    }

    fn keep_cookies(&self, headers: &HeaderMap) {
        let mut kept = self.cookies.borrow_mut();
        for set in headers.get_all("set-cookie") {
            let set = set.to_str().unwrap();
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            match set.contains("Max-Age=0") {
                true => kept.remove(name),
                false => kept.insert(name.to_owned(), value.to_owned()),
            };
        }
    }
}

impl VisitedPage {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The page's text without tags.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for piece in self.html.split('<') {
            text.push_str(piece.split_once('>').map_or(piece, |(_, rest)| rest));
            text.push(' ');
        }
        let words: Vec<String> = text.split_whitespace().map(unescaped).collect();
        words.join(" ")
    }

    #[track_caller]
    pub fn assert_shows(&self, words: &str) {
        assert!(
            self.text().contains(words),
            "{words:?} is not in {} {}: {}",
            self.status,
            self.path,
            self.text()
        );
    }

    #[track_caller]
    pub fn assert_hides(&self, words: &str) {
        assert!(
            !self.html.contains(words),
            "{words:?} is in {} {}",
            self.status,
            self.path
        );
    }

    /// Asserts the security headers, the size limit, and CSRF tokens in all forms.
    #[track_caller]
    pub fn assert_bound(&self, assets: &str) {
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("referrer-policy", "same-origin"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(self.header(name), Some(value), "{name} of {}", self.path);
        }
        for forbidden in [
            "<style",
            " style=",
            " onclick=",
            "javascript:",
            "//cdn",
            "https://",
        ] {
            self.assert_hides(forbidden);
        }
        for script in self.html.split("<script").skip(1) {
            assert!(script.starts_with(&format!(" src=\"{assets}")), "{script}");
        }
        let bytes = self.html.len();
        assert!(bytes < PAGE_BYTES, "{} has {bytes} bytes", self.path);
        for form in self.forms().iter().filter(|form| form.method == "post") {
            let token = form.value("_token");
            assert!(token.is_some_and(|token| token.len() > 40), "{form:?}");
        }
    }

    /// Every form with its initial values.
    pub fn forms(&self) -> Vec<HtmlForm> {
        let mut reading = FormParser::default();
        for (tag, attributes, after) in tags(&self.html) {
            reading.take(&tag, &attributes, &after);
        }
        reading.forms
    }

    /// The form with this path.
    #[track_caller]
    pub fn form(&self, action: &str) -> HtmlForm {
        let forms = self.forms();
        forms
            .iter()
            .find(|form| form.action == action)
            .cloned()
            .unwrap_or_else(|| {
                let there: Vec<&String> = forms.iter().map(|form| &form.action).collect();
                panic!(
                    "no form for {action} in {} {}, only for {there:?}",
                    self.status, self.path
                )
            })
    }

    /// The targets of all links.
    pub fn links(&self) -> Vec<String> {
        tags(&self.html)
            .into_iter()
            .filter(|(tag, ..)| tag == "a")
            .filter_map(|(_, attributes, _)| attributes.get("href").cloned())
            .collect()
    }

    /// The text of the element with this id, up to the next tag.
    #[track_caller]
    pub fn element(&self, id: &str) -> String {
        tags(&self.html)
            .into_iter()
            .find(|(_, attributes, _)| attributes.get("id").is_some_and(|it| it == id))
            .map(|(.., after)| after)
            .unwrap_or_else(|| panic!("no {id} in {} {}: {}", self.status, self.path, self.text()))
    }

    /// The attributes of the input with this name. The search in the frame of the console's pages is left out.
    #[track_caller]
    pub fn input(&self, name: &str) -> BTreeMap<String, String> {
        let found = tags(&self.html).into_iter().find(|(tag, attributes, _)| {
            ["input", "select", "textarea"].contains(&tag.as_str())
                && !attributes.contains_key("data-search")
                && attributes.get("name").is_some_and(|it| it == name)
        });
        found
            .unwrap_or_else(|| panic!("no input {name} in {}", self.path))
            .1
    }
}

/// A path without ids and query: equal for pages of one kind.
pub fn kind(path: &str) -> String {
    let path = path.split('?').next().unwrap_or(path);
    let steps = path.split('/').map(|step| match step.split_once('_') {
        Some((_, id)) if id.len() == 26 => "{id}",
        _ => step,
    });
    steps.collect::<Vec<_>>().join("/")
}

/// Parser state for forms.
#[derive(Default)]
struct FormParser {
    forms: Vec<HtmlForm>,
    inside: Option<HtmlForm>,
    /// The name of the open list.
    select: Option<String>,
}

impl FormParser {
    fn take(&mut self, tag: &str, attributes: &BTreeMap<String, String>, after: &str) {
        let get = |name: &str| attributes.get(name).cloned();
        let is_box = get("type").as_deref() == Some("checkbox");
        match tag {
            "form" => {
                self.inside = Some(HtmlForm {
                    action: get("action").unwrap_or_default(),
                    method: get("method").unwrap_or_else(|| "get".to_owned()),
                    fields: Vec::new(),
                });
            }
            "/form" => self.forms.extend(self.inside.take()),
            "input" if is_box && !attributes.contains_key("checked") => {}
            "input" => self.put(get("name"), get("value").unwrap_or_default()),
            "textarea" => self.put(get("name"), after.trim_start_matches('\n').to_owned()),
            "select" => self.select = get("name"),
            "/select" => self.select = None,
            "option" => self.choose(
                get("value").unwrap_or_default(),
                attributes.contains_key("selected"),
            ),
            _ => {}
        }
    }

    fn put(&mut self, name: Option<String>, value: String) {
        if let (Some(form), Some(name)) = (self.inside.as_mut(), name) {
            form.fields.push((name, value));
        }
    }

    /// The first option counts until a selected one is found.
    fn choose(&mut self, value: String, selected: bool) {
        let (Some(form), Some(name)) = (self.inside.as_mut(), self.select.clone()) else {
            return;
        };
        match form.fields.last_mut().filter(|(last, _)| *last == name) {
            None => form.fields.push((name, value)),
            Some((_, first)) if selected => *first = value,
            Some(_) => {}
        }
    }
}

impl HtmlForm {
    /// Types into an existing field. An unticked box has to be [`tick`](Self::tick)ed.
    #[track_caller]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        let field = self.fields.iter_mut().find(|(field, _)| field == name);
        let field =
            field.unwrap_or_else(|| panic!("no field {name} in the form for {}", self.action));
        field.1 = value.to_owned();
        self
    }

    /// Ticks a box.
    pub fn tick(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a field.
    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(field, _)| field != name);
        self
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Every tag with its attributes and the text that follows it.
fn tags(html: &str) -> Vec<(String, BTreeMap<String, String>, String)> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(begin) = rest.find('<') {
        rest = &rest[begin + 1..];
        let Some(end) = end_of_tag(rest) else { break };
        let (inside, after) = (&rest[..end], &rest[end + 1..]);
        let name_end = inside
            .find(|c: char| c.is_whitespace())
            .unwrap_or(inside.len());
        let text = after.split('<').next().unwrap_or_default();
        found.push((
            inside[..name_end].to_lowercase(),
            attributes(&inside[name_end..]),
            unescaped(text),
        ));
        rest = after;
    }
    found
}

fn end_of_tag(text: &str) -> Option<usize> {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn attributes(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(quoted) = rest.strip_prefix("=\"") {
            let end = quoted.find('"').unwrap_or(quoted.len());
            value = unescaped(&quoted[..end]);
            rest = &quoted[(end + 1).min(quoted.len())..];
        }
        if !name.is_empty() {
            found.insert(name, value);
        }
        rest = rest.trim_start();
    }
    found
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}
