//! The JSON files of LEAF (FEMNIST and others): samples by the user whose they are.

mod file;

use super::format::{Format, Parts};
use super::json::{self, People};
use super::sight::Sight;
use super::{Chunk, Content, Reader, Source, SourceOptions, Wanted, refusal};
use crate::{DataError, Values};
use file::{Found, Users};
use formant_numerics::Shape;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The smallest side of samples that are taken for pictures: shorter ones are rows of features.
const LEAST_SIDE: usize = 16;

pub(crate) const FORMAT: Format = Format {
    name: "LEAF",
    summary: "train/*.json and test/*.json with users and their samples: user_data: {USER: {x, y}}",
    is_it: |sight| {
        let keys = ["users", "num_samples", "user_data"];
        let is_one = |file: PathBuf| Sight::of(&file).is_ok_and(|file| file.mentions(&keys));
        sight.holds("train/")
            && files(&sight.path.join("train")).is_ok_and(|files| files.into_iter().any(is_one))
    },
    open: |sight, options| {
        let train = open(&sight.path.join("train"), options)?;
        let test = sight.holds("test/").then(|| open(&sight.path.join("test"), options));
        Ok(Parts { train, test: test.transpose()? })
    },
};

fn open(folder: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    if let Some(other) = options.client.as_deref().filter(|client| *client != "user") {
        return Err(refusal(
            folder.display(),
            format!("data.client = {other:?}, and LEAF knows whose a sample is by its user"),
            "remove data.client, or set data.client = \"user\"",
        ));
    }
    let files = files(folder)?;
    let (mut labels, mut people, mut length) = (Vec::new(), People::default(), None);
    for file in &files {
        let users = json::read(file, Users { keep: false })?;
        check(file, &users, &mut length)?;
        for user in &users.all {
            labels.extend_from_slice(&user.labels);
            user.labels.iter().for_each(|_| people.add(&user.name));
        }
    }
    let Some(length) = length else {
        let found = "its JSON files hold no sample".into();
        return Err(refusal(folder.display(), found, "give users that have samples"));
    };
    let count = labels.len();
    let origin = folder.display().to_string();
    let content = Collection { files: Arc::new(files), length };
    Ok(Source {
        shape: Some(shape(length)),
        values: Values::Floats,
        owners: Some(people.into_owners()),
        ..Source::new(origin, "LEAF", count, Ok(labels), content)
    })
}

/// The JSON files of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let names = Sight::of(folder)?.entries;
    let files = names.iter().map(|name| folder.join(name));
    let is_json = |file: &PathBuf| file.extension().is_some_and(|end| end == "json");
    Ok(files.filter(is_json).collect())
}

/// A square of 16x16 or more is a grey picture; all else are features.
fn shape(length: usize) -> Shape {
    let side = length.isqrt();
    if side >= LEAST_SIDE && side * side == length {
        Shape::new(1, side, side)
    } else {
        Shape::new(length, 1, 1)
    }
}

/// An error unless the users of a file are as many as it says, with samples of one length.
fn check(file: &Path, users: &Found, length: &mut Option<usize>) -> Result<(), DataError> {
    let fail = |found: String, remedy: &str| Err(refusal(file.display(), found, remedy));
    let again = "make the file again with LEAF's preprocessing";
    let listed = users.listed.as_ref().map_or(users.all.len(), Vec::len);
    if listed != users.all.len() {
        let found = format!("it lists {listed} users, and has data of {}", users.all.len());
        return fail(found, again);
    }
    let claimed = users.claimed();
    for user in &users.all {
        let claimed = claimed.get(user.name.as_str()).copied().unwrap_or(user.samples);
        if user.samples != user.labels.len() || claimed != user.samples {
            let found = format!(
                "the user {:?} has {} samples (x) and {} labels (y) where {claimed} are announced",
                user.name,
                user.samples,
                user.labels.len()
            );
            return fail(found, again);
        }
        let Some(own) = user.length else { continue };
        let expected = *length.get_or_insert(own);
        if own != expected || own == 0 {
            let found = format!(
                "a sample of the user {:?} has {own} numbers where others have {expected}",
                user.name
            );
            return fail(found, "give every sample the same numbers");
        }
    }
    Ok(())
}

/// Samples in several files.
struct Collection {
    files: Arc<Vec<PathBuf>>,
    length: usize,
}

impl Content for Collection {
    fn reader(&self, wanted: Wanted, _threads: usize) -> Result<Box<dyn Reader>, DataError> {
        let own = shape(self.length);
        if wanted.values != Values::Floats || wanted.shape.len() != self.length {
            return Err(refusal(
                self.files.first().map_or(String::new(), |file| file.display().to_string()),
                format!("samples of {own} numbers where {} is wanted", wanted.shape),
                "give samples of that shape",
            ));
        }
        let (files, length) = (self.files.clone(), self.length);
        Ok(Box::new(FileByFile { files, length, file: 0, values: Vec::new(), used: 0, next: 0 }))
    }
}

/// Reads a file at a time: LEAF writes a hundred users into each.
struct FileByFile {
    files: Arc<Vec<PathBuf>>,
    length: usize,
    /// The file that comes next.
    file: usize,
    values: Vec<f32>,
    used: usize,
    next: usize,
}

impl FileByFile {
    fn fewer(&self) -> DataError {
        let last = self.files.last().map_or(String::new(), |file| file.display().to_string());
        let found = format!("only {} samples are left: the files have changed", self.next);
        refusal(last, found, "try again once nobody writes to them")
    }
}

impl Reader for FileByFile {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        let mut left = most;
        while left > 0 {
            if self.used == self.values.len() {
                let Some(path) = self.files.get(self.file) else { return Err(self.fewer()) };
                let users = json::read(path, Users { keep: true })?;
                check(path, &users, &mut Some(self.length))?;
                self.values = users.all.into_iter().flat_map(|user| user.values).collect();
                (self.file, self.used) = (self.file + 1, 0);
                continue;
            }
            let count = left.min((self.values.len() - self.used) / self.length);
            let end = self.used + count * self.length;
            chunk.floats.extend_from_slice(&self.values[self.used..end]);
            chunk.indices.extend(self.next..self.next + count);
            (self.used, self.next, left) = (end, self.next + count, left - count);
        }
        Ok(())
    }
}
