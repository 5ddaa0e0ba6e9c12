//! The SIP edge: listeners, trunks, dialogs, and the media sockets of each call.
