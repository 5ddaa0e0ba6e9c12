//! What pages are made of, whoever they are for: the tenants' dashboard and the operators' console stand on it. Pages are made on
//! the server and work without a script; [`view`] is what one is written with, [`components`] what it is made of, [`shell`] what
//! stands around it, [`table`] where a room lists its pages, [`door`] what their requests and answers go through, and [`stream`] how a page that is open
//! is kept up to date.

pub mod assets;
pub mod charts;
pub mod components;
pub mod cookie;
pub mod cross_site;
pub mod door;
pub mod errors;
pub mod faults;
pub mod form;
pub mod format;
pub mod headers;
mod i18n;
pub mod lang;
pub mod lines;
pub mod live;
pub mod packed;
pub mod pretty;
pub mod seats;
pub mod shell;
pub mod stream;
pub mod table;
pub mod tables;
pub mod view;
