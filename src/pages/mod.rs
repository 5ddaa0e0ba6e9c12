//! The common parts of the tenants' dashboard and the operators' console. Pages are rendered on the server and work
//! without a script.
//!
//! [`view`] is a page's context, [`components`] are its building blocks, [`layout`] is its frame. An [`audience`] has
//! its pages in a [`table`], [`door`] handles their requests and answers, and [`stream`] carries updates of open pages.

pub mod assets;
pub mod audience;
pub mod charts;
pub mod components;
pub mod cookie;
pub mod cross_site;
pub mod door;
pub mod errors;
pub mod faults;
pub mod filters;
pub mod form;
pub mod format;
pub mod headers;
pub mod heading;
pub mod i18n;
pub mod lang;
pub mod layout;
pub mod lines;
pub mod live;
pub mod packed;
pub mod phone;
pub mod pretty;
pub mod seats;
pub mod session;
pub mod sign_in;
pub mod stream;
pub mod table;
pub mod tables;
pub mod view;
pub mod words;
pub mod zones;
