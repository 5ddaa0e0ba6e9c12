//! Finds import cycles between the modules of a crate.
//!
//! Modules are compared with their siblings: the top-level modules of a crate, and those of each folder. A folder's
//! `mod.rs` may use its modules and be used by them.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{File, Word};

type Path = Vec<String>;

/// Maximum length of a chain of aliases.
const ALIASES_MAX: usize = 8;

/// Modules that import each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Their folder, such as `src/config`.
    pub at: String,
    /// Their names, sorted.
    pub rooms: Vec<String>,
    /// One import of each pair, as an example.
    pub because: Vec<String>,
}

/// Every cycle of the crate whose root (`lib.rs`) is at this path.
pub fn circles(files: &[File], root: &str) -> Vec<Circle> {
    let sources: BTreeMap<&str, &File> = files.iter().map(|f| (f.path.as_str(), f)).collect();
    let house = House::read(&sources, root);
    let folder = root.trim_end_matches("/lib.rs");
    let mut found = Vec::new();
    for (at, doors) in house.doors() {
        let between: BTreeSet<(&str, &str)> = doors
            .keys()
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect();
        for rooms in rings(&between) {
            let inside =
                |(from, to): &&(String, String)| rooms.contains(from) && rooms.contains(to);
            found.push(Circle {
                at: [&[folder.to_owned()][..], &at[..]].concat().join("/"),
                because: doors
                    .keys()
                    .filter(inside)
                    .map(|door| doors[door].clone())
                    .collect(),
                rooms,
            });
        }
    }
    found
}

#[derive(Debug, Default)]
struct Module {
    uses: Vec<Use>,
    /// Names that stand for other paths.
    aliases: BTreeMap<String, Path>,
    globs: Vec<Path>,
    /// Names of its own definitions.
    items: BTreeSet<String>,
}

#[derive(Debug)]
struct Use {
    path: Path,
}

#[derive(Debug)]
struct House {
    modules: BTreeMap<Path, Module>,
}

impl House {
    fn read(sources: &BTreeMap<&str, &File>, root: &str) -> Self {
        let mut modules = BTreeMap::new();
        let mut open: Vec<(Path, String)> = vec![(Vec::new(), root.to_owned())];
        while let Some((path, file)) = open.pop() {
            let words = sources[file.as_str()].words();
            for child in children(&words) {
                let stem = file.trim_end_matches(".rs");
                let folder = match stem.rsplit_once('/') {
                    Some((folder, "mod" | "lib")) => folder,
                    _ => stem,
                };
                let places = [
                    format!("{folder}/{child}.rs"),
                    format!("{folder}/{child}/mod.rs"),
                ];
                let place = places
                    .into_iter()
                    .find(|place| sources.contains_key(place.as_str()));
                let place = place.unwrap_or_else(|| panic!("{file} has no file for mod {child}"));
                open.push(([&path[..], &[child]].concat(), place));
            }
            modules.insert(path, Module::read(&words));
        }
        Self { modules }
    }

    /// Per folder: its modules that import from each other, with an example of each import.
    fn doors(&self) -> BTreeMap<Path, BTreeMap<(String, String), String>> {
        let mut doors: BTreeMap<Path, BTreeMap<(String, String), String>> = BTreeMap::new();
        for (module, content) in &self.modules {
            for used in &content.uses {
                let Some(target) = self.resolve(module, &used.path, 0) else {
                    continue;
                };
                let shared = module
                    .iter()
                    .zip(&target)
                    .take_while(|(a, b)| a == b)
                    .count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    let because = format!("{}: {}", module.join("/"), used.path.join("::"));
                    doors
                        .entry(module[..shared].to_vec())
                        .or_default()
                        .entry((from.clone(), to.clone()))
                        .or_insert(because);
                }
            }
        }
        doors
    }

    /// The module that a path leads to; `None` if it is outside of the crate.
    fn resolve(&self, at: &Path, path: &[String], depth: usize) -> Option<Path> {
        let (mut here, mut rest) = match path.first().map(String::as_str)? {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (at.clone(), &path[1..]),
            "super" => (at.clone(), path),
            first if self.modules.contains_key(&child(at, first)) => (at.clone(), path),
            _ => return None,
        };
        while rest.first().is_some_and(|name| name == "super") {
            here.pop()?;
            rest = &rest[1..];
        }
        while let Some(name) = rest.first() {
            let inner = child(&here, name);
            if !self.modules.contains_key(&inner) {
                return Some(self.owner(&here, name, depth).unwrap_or(here));
            }
            here = inner;
            rest = &rest[1..];
        }
        Some(here)
    }

    /// The module of origin of a name that a module re-exports.
    fn owner(&self, at: &Path, name: &str, depth: usize) -> Option<Path> {
        let module = &self.modules[at];
        if depth > ALIASES_MAX || module.items.contains(name) {
            return None;
        }
        if let Some(path) = module.aliases.get(name) {
            return self.resolve(at, path, depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let from = self.resolve(at, glob, depth + 1)?;
            let there = self.modules[&from].items.contains(name);
            if there {
                Some(from)
            } else {
                self.owner(&from, name, depth + 1)
            }
        })
    }
}

fn child(at: &Path, name: &str) -> Path {
    [&at[..], &[name.to_owned()]].concat()
}

impl Module {
    fn read(words: &[Word]) -> Self {
        let mut module = Self::default();
        let mut at = 0;
        while at < words.len() {
            if is_import(words, at) {
                at += 1;
                module.tree(words, &mut at, &[]);
                continue;
            }
            let item = [
                "struct", "enum", "fn", "trait", "type", "const", "static", "union",
            ];
            if at > 0 && item.iter().any(|kind| words[at - 1].is(kind)) && words[at].is_name() {
                module.items.insert(words[at].text.clone());
            }
            if begins_path(words, at) {
                let mut path = vec![words[at].text.clone()];
                while words.get(at + 1).is_some_and(|word| word.is("::"))
                    && words.get(at + 2).is_some_and(Word::is_name)
                {
                    path.push(words[at + 2].text.clone());
                    at += 2;
                }
                module.uses.push(Use { path });
            }
            at += 1;
        }
        module
    }

    /// Reads one branch of a `use`.
    fn tree(&mut self, words: &[Word], at: &mut usize, above: &[String]) {
        let mut path = above.to_vec();
        while let Some(word) = words.get(*at) {
            *at += 1;
            match word.text.as_str() {
                "::" => continue,
                "{" => {
                    while words.get(*at).is_some_and(|word| !word.is("}")) {
                        self.tree(words, at, &path);
                        *at += usize::from(words.get(*at).is_some_and(|word| word.is(",")));
                    }
                    *at += 1;
                    return;
                }
                "*" => {
                    self.globs.push(path.clone());
                    self.uses.push(Use { path });
                    return;
                }
                "self" if !path.is_empty() => {}
                _ => path.push(word.text.clone()),
            }
            if words.get(*at).is_none_or(|word| !word.is("::")) {
                break;
            }
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if words.get(*at).is_some_and(|word| word.is("as")) {
            name = words.get(*at + 1).map_or(name, |word| word.text.clone());
            *at += 2;
        }
        self.aliases.insert(name, path.clone());
        self.uses.push(Use { path });
    }
}

/// True for `use` as an import, not for `use<…>` in a type.
fn is_import(words: &[Word], at: usize) -> bool {
    words[at].is("use") && words.get(at + 1).is_some_and(|word| !word.is("<"))
}

/// True if a path begins here that may lead to another module of the crate; `pub(in crate::…)` does not.
fn begins_path(words: &[Word], at: usize) -> bool {
    let begins = ["crate", "super", "self"]
        .iter()
        .any(|word| words[at].is(word));
    let before = |n: usize, text: &str| at >= n && words[at - n].is(text);
    begins
        && words.get(at + 1).is_some_and(|word| word.is("::"))
        && !before(1, "::")
        && !(before(1, "in") && before(2, "("))
}

/// The modules that are declared in a file of their own.
fn children(words: &[Word]) -> Vec<String> {
    let declared = |at: &[Word]| at[0].is("mod") && at[1].is_name() && at[2].is(";");
    words
        .windows(3)
        .filter(|at| declared(at))
        .map(|at| at[1].text.clone())
        .collect()
}

/// The sets of modules that can all reach each other.
fn rings(doors: &BTreeSet<(&str, &str)>) -> Vec<Vec<String>> {
    let rooms: BTreeSet<&str> = doors.iter().map(|(from, _)| *from).collect();
    let reach: BTreeMap<&str, BTreeSet<&str>> = rooms
        .iter()
        .map(|room| (*room, reached(doors, room)))
        .collect();
    let mut rings: BTreeSet<Vec<String>> = BTreeSet::new();
    for (room, there) in &reach {
        if there.contains(room) {
            let back = |other: &&&str| reach.get(**other).is_some_and(|there| there.contains(room));
            let ring = there.iter().filter(back);
            rings.insert(ring.map(|room| (*room).to_owned()).collect());
        }
    }
    rings.into_iter().collect()
}

/// Every module that can be reached by imports.
fn reached<'a>(doors: &BTreeSet<(&'a str, &'a str)>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen: BTreeSet<&'a str> = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(room) = open.pop() {
        let next = doors.iter().filter(|(a, _)| *a == room).map(|(_, b)| *b);
        open.extend(next.filter(|b| seen.insert(b)));
    }
    seen
}
