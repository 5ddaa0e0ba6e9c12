//! The open dialogs: finds the call of a message, and the number of dialogs with an address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::mpsc;

use super::{
    Dialog,
    attempts::{CallAttempt, CallAttempts},
    key,
};
use crate::{message::SipRequest, transactions::Responder};

/// A message to a call's task.
#[derive(Debug)]
pub enum DialogMessage {
    Request(SipRequest, Responder),
    Ack(SipRequest),
}

/// The open dialogs of an edge.
#[derive(Debug, Default)]
pub struct OpenDialogs(Mutex<DialogTable>);

/// The inboxes of open dialogs, and their number per peer address.
#[derive(Debug, Default)]
struct DialogTable {
    inboxes: HashMap<String, mpsc::Sender<DialogMessage>>,
    peers: HashMap<IpAddr, usize>,
    /// Attempts of incoming calls.
    attempts: CallAttempts,
}

/// The identity that INVITEs of the same call share.
#[derive(Debug)]
pub struct CallIdentity {
    pub text: String,
    /// No other call ever has it, so the CSeq does not count.
    pub is_of_one_call: bool,
}

/// Registers a dialog, so that its messages are found, until this is dropped.
#[derive(Debug)]
pub struct DialogRegistration {
    dialogs: Arc<OpenDialogs>,
    key: String,
    /// The attempt of an incoming call, until it is refused.
    attempt: Option<CallAttempt>,
    peer: IpAddr,
}

impl DialogRegistration {
    /// To be called before a refusal is sent: the caller may then call again with the same Call-ID and tag.
    pub fn free_caller(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.dialogs.table().attempts.end(&attempt);
        }
    }

    /// The same before a refusal with 500 and above or because of a fault of ours, after which even a caller with a single call may
    /// try again.
    pub fn free_failed_caller(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.failed();
        }
        self.free_caller();
    }

    /// To be called before an incoming call is offered. Returns the number that distinguishes it from the caller's first call,
    /// if any.
    pub fn mark_offered(&mut self) -> Option<u32> {
        self.attempt.as_mut().and_then(CallAttempt::mark_offered)
    }

    /// To be called before the answer is sent.
    pub fn answered(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.answered();
        }
    }
}

impl Drop for DialogRegistration {
    fn drop(&mut self) {
        self.free_caller();
        let mut table = self.dialogs.table();
        table.inboxes.remove(&self.key);
        if let Some(count) = table.peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                table.peers.remove(&self.peer);
            }
        }
    }
}

impl OpenDialogs {
    fn table(&self) -> MutexGuard<'_, DialogTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a dialog with a peer at this address; its messages go to the inbox.
    pub fn list(
        self: &Arc<Self>,
        key: String,
        inbox: mpsc::Sender<DialogMessage>,
        peer: IpAddr,
    ) -> DialogRegistration {
        self.listed(&mut self.table(), key, None, inbox, peer)
    }

    /// Registers the dialog of an incoming call; `None` if a call with its identity is open, or was the only one that it may have.
    pub fn list_caller(
        self: &Arc<Self>,
        dialog: &Dialog,
        identity: &CallIdentity,
        inbox: mpsc::Sender<DialogMessage>,
        peer: IpAddr,
    ) -> Option<DialogRegistration> {
        let mut table = self.table();
        let number = (!identity.is_of_one_call).then_some(dialog.remote_seq);
        let attempt = table.attempts.begin(&identity.text, number)?;
        Some(self.listed(&mut table, dialog.key(), Some(attempt), inbox, peer))
    }

    fn listed(
        self: &Arc<Self>,
        table: &mut DialogTable,
        key: String,
        attempt: Option<CallAttempt>,
        inbox: mpsc::Sender<DialogMessage>,
        peer: IpAddr,
    ) -> DialogRegistration {
        let peer = peer.to_canonical();
        table.inboxes.insert(key.clone(), inbox);
        *table.peers.entry(peer).or_default() += 1;
        DialogRegistration {
            dialogs: self.clone(),
            key,
            attempt,
            peer,
        }
    }

    /// True if one of them is with a peer at this address.
    pub fn are_with(&self, ip: IpAddr) -> bool {
        self.table().peers.contains_key(&ip.to_canonical())
    }

    pub fn find(&self, call_id: &str, local_tag: &str) -> Option<mpsc::Sender<DialogMessage>> {
        self.table().inboxes.get(&key(call_id, local_tag)).cloned()
    }

    pub fn is_empty(&self) -> bool {
        self.table().inboxes.is_empty()
    }
}
