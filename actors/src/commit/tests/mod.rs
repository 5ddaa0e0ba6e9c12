//! Tests of whole commits on real databases.

mod crash;
mod locked;
mod remembered;
mod store;

use dikala_entities::{TransactionType, credit_account};

use super::*;
use crate::ledger::{
    lock_holds, take_over,
    tests::{LOW_THRESHOLD, NOW, account, adjust, admit, extend, owner, settle},
    verify,
};
