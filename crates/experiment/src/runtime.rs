//! `[runtime]`: how the machine is used. Nothing here changes a result.

use crate::section::{Section, key, whole};
use crate::units::{SIZE, Size};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_runtime::Keep;
use serde::{Deserialize, Serialize};

pub(crate) const SECTION: Section =
    Section::new("runtime", "How the machine is used; nothing here changes a result.", KEYS);

const KEYS: &[Key] = &[
    key(
        "threads",
        Kind::Integer { min: 1, max: 4_096 },
        Preset::Unset,
        "worker threads; unset: one per core",
    ),
    key(
        "memory",
        Kind::Form(&SIZE),
        Preset::Text("512MiB"),
        "client states beyond this are kept on disk",
    ),
    key("checkpoint_every", whole(1), Preset::Integer(10), "rounds between checkpoints"),
    key(
        "keep",
        Kind::Choice(Keep::WORDS),
        Preset::Text(Keep::All.word()),
        "models that the run folder keeps: generic and personal ones (and the states that more rounds need), generic ones, or none",
    ),
    key(
        "keep_limit",
        Kind::Form(&SIZE),
        Preset::Text("4GiB"),
        "models beyond this are not kept; generic ones come first, then the personal ones of one method after the other, then states",
    ),
];

/// How the machine is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runtime {
    /// Worker threads; without it, one per core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Client states beyond this are kept on disk.
    pub memory: Size,
    /// Rounds between checkpoints.
    pub checkpoint_every: usize,
    /// Models that the run folder keeps.
    pub keep: Keep,
    /// Models beyond this are not kept.
    pub keep_limit: Size,
}

impl Default for Runtime {
    fn default() -> Self {
        SECTION.defaults()
    }
}

impl Runtime {
    /// Worker threads on this machine.
    pub fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.unwrap_or_else(cores)
    }
}
