//! Files that fail when a test says so.
//!
//! Every call of [`super::raw`] passes here first. In a program that people use, [`pass`] is nothing; with the feature
//! `faults`, which only tests ask for, a call below a watched folder may fail, and all of them are written down.

use std::path::Path;

/// A call that changes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// Opens or creates a file.
    Open,
    /// Writes into it, or changes its length.
    Write,
    /// Makes its content durable.
    Sync,
    /// Gives it another name.
    Rename {
        /// Which.
        to: &'a Path,
    },
    /// Removes it, or a folder.
    Remove,
    /// Creates a folder.
    CreateFolder,
    /// Makes the names in a folder durable.
    SyncFolder,
}

/// Asked before every call.
#[cfg(not(any(test, feature = "faults")))]
#[inline]
pub fn pass(_: Call<'_>, _: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(any(test, feature = "faults"))]
pub use watched::{Faults, Lasting, Made, pass};

#[cfg(any(test, feature = "faults"))]
mod watched {
    use super::Call;
    use crate::sync::lock;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    /// How long a fault lasts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Lasting {
        /// One call fails.
        Once,
        /// All calls from then on, as when the disk is gone.
        FromThenOn,
    }

    /// A call that was made.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Made {
        /// Its kind, in a word.
        pub call: &'static str,
        /// The file or folder.
        pub path: PathBuf,
        /// Its new name, of a rename.
        pub to: Option<PathBuf>,
        /// What a file held that got another name, if it is small.
        pub content: Option<Vec<u8>>,
    }

    /// A folder whose calls are counted and may fail, as long as this lives.
    pub struct Faults(Arc<Watch>);

    struct Watch {
        folder: PathBuf,
        /// The call that fails, counted from 1.
        at: u64,
        lasting: Lasting,
        state: Mutex<State>,
    }

    #[derive(Default)]
    struct State {
        made: Vec<Made>,
        failed: bool,
        mended: bool,
    }

    static WATCHES: Mutex<Vec<Arc<Watch>>> = Mutex::new(Vec::new());

    impl Faults {
        /// Has the call number `at` below a folder fail; none, if so many are not made.
        pub fn below(folder: &Path, at: u64, lasting: Lasting) -> Self {
            let (folder, state) = (folder.into(), Mutex::default());
            let watch = Arc::new(Watch { folder, at, lasting, state });
            lock(&WATCHES).push(watch.clone());
            Self(watch)
        }

        /// Only writes down what is called.
        pub fn none_below(folder: &Path) -> Self {
            Self::below(folder, u64::MAX, Lasting::Once)
        }

        /// Whether a call has failed.
        pub fn have_failed(&self) -> bool {
            lock(&self.0.state).failed
        }

        /// From now on nothing fails.
        pub fn mend(&self) {
            lock(&self.0.state).mended = true;
        }

        /// All calls so far.
        pub fn made(&self) -> Vec<Made> {
            lock(&self.0.state).made.clone()
        }
    }

    impl Drop for Faults {
        fn drop(&mut self) {
            lock(&WATCHES).retain(|watch| !Arc::ptr_eq(watch, &self.0));
        }
    }

    /// Asked before every call.
    pub fn pass(call: Call<'_>, path: &Path) -> io::Result<()> {
        let watches = lock(&WATCHES).clone();
        watches.iter().filter(|watch| path.starts_with(&watch.folder)).try_for_each(|watch| {
            let mut state = lock(&watch.state);
            state.made.push(Made::of(call, path));
            let number = state.made.len() as u64;
            let fails = match watch.lasting {
                Lasting::Once => number == watch.at,
                Lasting::FromThenOn => number >= watch.at,
            };
            let fails = fails && !state.mended;
            state.failed |= fails;
            if fails {
                let what = format!("call {number} was made to fail: {call:?}");
                return Err(io::Error::other(what));
            }
            Ok(())
        })
    }

    /// The largest file that is remembered.
    const SMALL: usize = 1 << 16;

    impl Made {
        fn of(call: Call<'_>, path: &Path) -> Self {
            let (call, to) = match call {
                Call::Open => ("open", None),
                Call::Write => ("write", None),
                Call::Sync => ("sync", None),
                Call::Rename { to } => ("rename", Some(to.into())),
                Call::Remove => ("remove", None),
                Call::CreateFolder => ("create folder", None),
                Call::SyncFolder => ("sync folder", None),
            };
            let content = to.as_ref().and_then(|_| std::fs::read(path).ok());
            let content = content.filter(|bytes| bytes.len() <= SMALL);
            Self { call, path: path.into(), to, content }
        }
    }
}
