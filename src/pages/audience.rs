//! The two audiences of the pages, tenants and operators: what tells the dashboard from the console.

use super::table::PageRoute;

/// A group of the navigation: its name, and the names and paths of its pages. Names are message ids.
#[derive(Debug)]
pub struct Group {
    pub name: &'static str,
    pub pages: &'static [(&'static str, &'static str)],
}

/// One audience's pages.
#[derive(Debug)]
pub struct PageAudience {
    /// The title of all its pages.
    pub brand: &'static str,
    /// True if its pages use the full width, for large tables.
    pub wide: bool,
    /// The base path, without a trailing slash.
    pub base: &'static str,
    /// The path of the home page.
    pub home: &'static str,
    pub sign_in: &'static str,
    pub sign_out: &'static str,
    pub pages: &'static [PageRoute],
    /// The path of the search in the frame of every page.
    pub search: Option<&'static str>,
    /// The navigation. It marks the entry whose path is a prefix of the current one; the home page, whose path is a
    /// prefix of all, must match exactly.
    pub groups: &'static [Group],
    /// Pages that belong to a navigation entry with a different path.
    pub belong: &'static [(&'static str, &'static str)],
    pub messages: AudienceMessages,
}

/// Ids of messages that each audience has in words of its own.
#[derive(Debug)]
pub struct AudienceMessages {
    /// The prefix of confirmations of posts.
    pub done: &'static str,
    /// The link of error pages to the home page.
    pub home: &'static str,
    /// Title and words for a post from another site, or from an outdated page.
    pub foreign: (&'static str, &'static str),
    /// Words for an attempt to change something without that right.
    pub view_only: &'static str,
}

impl PageAudience {
    /// Name and path of the navigation entry that a page belongs to.
    pub fn place(&self, present: &str) -> Option<(&'static str, &'static str)> {
        let is_below = |path: &str| {
            present
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let belongs = self.belong.iter().find(|(path, _)| is_below(path));
        let mut pages = self.groups.iter().flat_map(|group| group.pages).copied();
        pages.find(|(_, path)| match belongs {
            Some((_, to)) => path == to,
            None if *path == self.home => present == *path,
            None => is_below(path),
        })
    }

    /// True for a path of this audience's pages; prevents redirects to other sites.
    pub fn owns(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.base);
        path.starts_with('/')
            && !path.starts_with("//")
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    }
}
