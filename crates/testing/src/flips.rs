//! Folders in which one byte is changed: what comes of them is either an error or what would have come without.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Changes by chance, and what came of them. The same ones every time.
pub struct Flips {
    dice: u64,
    left: usize,
    counts: BTreeMap<String, [usize; 2]>,
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fell {
    /// It was refused, with the file's name.
    Detected,
    /// Nothing was different.
    Harmless,
}

impl Flips {
    /// So many changes, or as many as `FORMANT_FLIPS` says.
    ///
    /// # Panics
    ///
    /// If it says something that is no number.
    pub fn new(seed: u64, ordinary: usize) -> Self {
        let asked = std::env::var("FORMANT_FLIPS");
        let left = asked.map_or(ordinary, |count| count.parse().unwrap());
        Self { dice: seed, left, counts: BTreeMap::new() }
    }

    /// SplitMix64.
    fn below(&mut self, bound: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// The next change, in a copy of a folder; none if there were enough.
    pub fn next(&mut self, whole: &Whole) -> Option<Flipped> {
        self.left = self.left.checked_sub(1)?;
        // Kinds first: there are many personal models and one manifest.
        let kind = self.below(whole.kinds.len());
        let (kind, files) = whole.kinds.iter().nth(kind)?;
        let file = files[self.below(files.len())].clone();
        let copy = tempfile::tempdir().unwrap();
        copy_all(&whole.folder, copy.path());
        let path = copy.path().join(&file);
        let mut bytes = fs::read(&path).unwrap();
        let digits: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
        let is_text = std::str::from_utf8(&bytes).is_ok();
        let what = if is_text && !digits.is_empty() && self.below(2) == 0 {
            let at = digits[self.below(digits.len())];
            let old = bytes[at];
            bytes[at] = b'0' + (old - b'0' + 1 + self.below(9) as u8) % 10;
            format!("{} at {at} became {}", old as char, bytes[at] as char)
        } else {
            let (at, bit) = (self.below(bytes.len()), self.below(8));
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        };
        fs::write(&path, bytes).unwrap();
        let what = format!("{}: {what}", file.display());
        Some(Flipped { copy, kind: kind.clone(), file, what })
    }

    /// Notes what came of one.
    pub fn note(&mut self, flipped: &Flipped, fell: Fell) {
        self.counts.entry(flipped.kind.clone()).or_default()
            [usize::from(fell == Fell::Harmless)] += 1;
    }
}

impl fmt::Display for Flips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} {:>8}  file", "detected", "harmless")?;
        let mut sum = [0, 0];
        for (kind, [detected, harmless]) in &self.counts {
            writeln!(f, "{detected:>8} {harmless:>8}  {kind}")?;
            sum = [sum[0] + detected, sum[1] + harmless];
        }
        writeln!(f, "{:>8} {:>8}  in all", sum[0], sum[1])
    }
}

/// A folder as it should be.
pub struct Whole {
    folder: PathBuf,
    /// Its files, by name without numbers.
    kinds: BTreeMap<String, Vec<PathBuf>>,
}

impl Whole {
    /// A folder that stays as it is; files for which `leave_out` says so are not changed.
    pub fn of(folder: &Path, leave_out: impl Fn(&Path) -> bool) -> Self {
        let mut files = Vec::new();
        list(folder, folder, &mut files);
        files.retain(|file| !leave_out(file) && fs::metadata(folder.join(file)).unwrap().len() > 0);
        let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in files {
            let name = file.to_string_lossy();
            let kind = name.chars().filter(|c| !c.is_ascii_digit()).collect();
            kinds.entry(kind).or_default().push(file);
        }
        Self { folder: folder.into(), kinds }
    }
}

/// A copy of a folder with one change.
pub struct Flipped {
    copy: TempDir,
    kind: String,
    file: PathBuf,
    what: String,
}

impl Flipped {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.copy.path()
    }

    /// The file that was changed, inside the folder.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether an error names the changed file and says what to do.
    pub fn is_named_by(&self, error: &str) -> bool {
        let name = self.file.file_name().unwrap().to_string_lossy();
        error.contains(&*name) && (error.contains("hint: ") || error.contains("; "))
    }
}

/// What was changed.
impl fmt::Display for Flipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

fn list(root: &Path, folder: &Path, into: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list(root, &path, into);
        } else {
            into.push(path.strip_prefix(root).unwrap().into());
        }
    }
}

/// Copies a folder with all that is in it.
///
/// # Panics
///
/// If it cannot.
pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
