//! Where a rank keeps what is made durable.

use super::Site;
use crate::follower::Place;
use formant_runtime::files::raw;
use formant_runtime::{Footprint, RunPlan};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file of the network may be seen a moment after it was made.
const APPEARS: Duration = Duration::from_secs(5);

/// Where states are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum States {
    /// In the run folder, where that is seen.
    Shared,
    /// On a disk of the host's own, also where it is.
    Local,
}

impl States {
    /// Has the last word for a rank.
    pub(super) const VARIABLE: &str = "FORMANT_STATES";

    pub(super) fn wanted(said: Option<&str>) -> Result<Self, String> {
        match said {
            None | Some("" | "shared") => Ok(Self::Shared),
            Some("local") => Ok(Self::Local),
            Some(other) => Err(format!(
                "{} is `{other}`, and states are `shared` (in the run folder) or `local` (below TMPDIR); set it to one of these",
                Self::VARIABLE
            )),
        }
    }
}

/// Bytes of a model: who has no room for them cannot keep a state.
pub(super) fn model_bytes(plan: &RunPlan) -> u64 {
    Footprint::of(plan).model
}

/// Where a rank keeps what is made durable: in the run folder if it sees that and may write there, unless another place is
/// wanted.
pub(super) fn place(
    site: &Site,
    states: States,
    bytes: u64,
    temporary: &Path,
) -> Result<Place, String> {
    if states == States::Shared
        && let Some(folder) = shared(site, bytes)?
    {
        return Ok(Place::Shared(folder));
    }
    let own = own_folder(temporary).map_err(|error| {
        format!(
            "it neither keeps states in the run folder {} nor can it make a folder of its own in {} ({error}); mount the one, or name another disk by TMPDIR",
            site.run_dir.display(),
            temporary.display()
        )
    })?;
    match probe(own.path(), bytes) {
        Probed::Can => Ok(Place::Own(own)),
        Probed::Cannot(why) => Err(format!("{why}; free some, or name another disk by TMPDIR")),
        Probed::MayNot => Err(format!(
            "it cannot write into {}; name another disk by TMPDIR",
            temporary.display()
        )),
    }
}

/// The folder of states in the run folder, if it is seen and may be written into.
fn shared(site: &Site, bytes: u64) -> Result<Option<PathBuf>, String> {
    let folder = site.run_dir.join("states");
    let begun = Instant::now();
    loop {
        if folder.join(&site.token).exists() {
            return match probe(&folder, bytes) {
                Probed::Can => Ok(Some(folder)),
                Probed::MayNot => Ok(None),
                // Copies of what it keeps elsewhere would go there as well.
                Probed::Cannot(why) => Err(format!("{why}; free some space")),
            };
        }
        // A folder that is not there will not come.
        if !folder.exists() || begun.elapsed() > APPEARS {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What came of writing into a folder.
#[derive(Debug, PartialEq)]
pub(super) enum Probed {
    Can,
    /// Nobody has allowed it.
    MayNot,
    /// There is no room, or the disk does not work.
    Cannot(String),
}

/// Writes so many bytes into a folder and has them reach the disk: an empty file fits everywhere, and some disks say that
/// they are full when bytes are to reach them and not before.
pub(super) fn probe(folder: &Path, bytes: u64) -> Probed {
    let Ok(file) = tempfile::NamedTempFile::new_in(folder) else { return Probed::MayNot };
    let mut written = 0;
    match fill(file.path(), bytes, &mut written) {
        Ok(()) => Probed::Can,
        Err(error) => Probed::Cannot(format!(
            "{} has room for {written} bytes where one model takes {bytes} ({error})",
            folder.display()
        )),
    }
}

/// Bytes of a probe that are written at once.
const CHUNK: usize = 1 << 16;

fn fill(path: &Path, bytes: u64, written: &mut u64) -> io::Result<()> {
    // Not zeros: of those, some disks keep nothing.
    let chunk = vec![0xA5; CHUNK];
    let mut file = raw::open(OpenOptions::new().write(true), path)?;
    while *written < bytes {
        let now = usize::try_from(bytes - *written).map_or(CHUNK, |left| left.min(CHUNK));
        let count = raw::write(&mut file, path, &chunk[..now])?;
        *written += count as u64;
    }
    raw::sync_data(&file, path)
}

/// The beginning of the names of ranks' own folders.
const OWN: &str = "formant-states-";

/// Makes a folder of this process's own, and removes those of processes that were killed: nobody else does.
fn own_folder(temporary: &Path) -> io::Result<tempfile::TempDir> {
    let beginning = beginning();
    let own = tempfile::Builder::new()
        .prefix(&format!("{beginning}{}-", std::process::id()))
        .tempdir_in(temporary)?;
    // Who tells which processes there are tells whose folders are left.
    if Path::new("/proc/self").exists() {
        for entry in fs::read_dir(temporary)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name.strip_prefix(&beginning).and_then(|rest| rest.split('-').next());
            let process = process.and_then(|process| process.parse::<u32>().ok());
            let is_gone =
                process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
            if is_gone && is_same_owner(&entry.path(), own.path()) {
                // One too many costs space.
                let _ = raw::remove_folder(&entry.path());
            }
        }
    }
    Ok(own)
}

/// What the names of folders of this machine's processes begin with. Machines may share a disk, and so may containers,
/// which count processes for themselves.
fn beginning() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let named: String = host.trim().chars().filter(char::is_ascii_alphanumeric).collect();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{OWN}{named}-{number}-")
}

#[cfg(unix)]
fn is_same_owner(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path| fs::symlink_metadata(path).ok().map(|data| data.uid());
    owner(one).is_some() && owner(one) == owner(other)
}

#[cfg(not(unix))]
fn is_same_owner(_: &Path, _: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_runtime::files::faults::{Faults, Lasting};

    fn site(run_dir: &Path) -> Site {
        let (token, folder) = ("ranks-1".to_owned(), run_dir.join("states"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(&token), b"").unwrap();
        Site { run_dir: run_dir.into(), token, threads: 1 }
    }

    #[test]
    fn states_are_in_the_run_folder_unless_another_place_is_wanted() {
        let (run, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let site = site(run.path());
        let place = |states| place(&site, states, 100_000, own.path()).unwrap();
        assert!(matches!(place(States::Shared), Place::Shared(_)));
        let local = place(States::Local);
        let Place::Own(folder) = &local else { panic!("{local:?}") };
        assert!(folder.path().starts_with(own.path()));
        assert_eq!(States::wanted(Some("local")), Ok(States::Local));
        assert_eq!(States::wanted(None), Ok(States::Shared));
        let why = States::wanted(Some("here")).unwrap_err();
        assert!(why.contains("FORMANT_STATES is `here`") && why.contains("`local`"), "{why}");
    }

    #[test]
    fn a_full_disk_is_noticed_before_a_run() {
        let (run, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let site = site(run.path());
        for (folder, states) in [(run.path(), States::Shared), (own.path(), States::Local)] {
            let calls = {
                let watched = Faults::none_below(folder);
                place(&site, states, 100_000, own.path()).unwrap();
                watched.made()
            };
            let calls: Vec<&str> = calls.iter().map(|made| made.call).collect();
            assert_eq!(calls, ["open", "write", "write", "sync"]);
            for call in 2..=4 {
                let _full = Faults::below(folder, call, Lasting::FromThenOn);
                let why = place(&site, states, 100_000, own.path()).unwrap_err();
                let room = ["0", "65536", "100000"][call as usize - 2];
                let told = format!("has room for {room} bytes where one model takes 100000");
                assert!(why.contains(&told) && why.contains("free some"), "{why}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_killed_processes_have_left_is_removed() {
        let disk = tempfile::tempdir().unwrap();
        // No process has such a number.
        let left = disk.path().join(format!("{}4294967295-abc", beginning()));
        let of_another_host = disk.path().join(format!("{OWN}elsewhere-1-4294967295-abc"));
        let mine = disk.path().join(format!("{}{}-abc", beginning(), std::process::id()));
        let other = disk.path().join("formant");
        for folder in [&left, &of_another_host, &mine, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("values.bin"), b"1").unwrap();
        }
        let own = own_folder(disk.path()).unwrap();
        assert!(!left.exists());
        assert!(of_another_host.exists() && mine.exists() && other.exists() && own.path().exists());
    }
}
