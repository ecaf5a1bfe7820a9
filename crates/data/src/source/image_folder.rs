//! A folder of image files, whose subfolders are classes.

use super::format::{Format, Parts};
use super::image_file::{EXTENSIONS, Files, is_named_so};
use super::sight::Sight;
use super::{Names, Problem, Source, SourceOptions, refusal};
use crate::share::file_error;
use crate::{DataError, Owners, Split};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Deeper folders are not looked into: a chain of links may have no end.
const DEEPEST: usize = 32;

pub(crate) const FORMAT: Format = Format {
    name: "image folder",
    summary: "CLASS/*.png, or train/CLASS/* and test/CLASS/* (or val); PNG, JPEG, WebP or BMP",
    is_it: |sight| sight.is_folder(),
    open: open_parts,
};

/// Whether a folder is none of the others that have a format.
pub(crate) fn is_one(sight: &Sight) -> bool {
    Format::of(sight).is_ok_and(|format| format.name == FORMAT.name)
}

/// Opens a folder: all images in it and below, by name. A folder of `train` and `test` (or `val`)
/// stands for the one that is wanted.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let root = part(path, options.split)?;
    let mut found = Found::default();
    walk(&root, 0, &mut found)?;
    if found.images.is_empty() {
        return Err(nothing(&root, &found));
    }
    source(&root, found.images, options)
}

/// A source of the images below a folder, in their order.
fn source(root: &Path, images: Vec<PathBuf>, options: &SourceOptions) -> Result<Source, DataError> {
    let owners = owners(root, &images, options)?;
    let labels = levels(root, &images, usize::from(owners.is_some()));
    let paths = Arc::new(images);
    let (labels, class_names) = match labels {
        Ok((labels, names)) => (Ok(labels), Some(names)),
        Err(why) => (Err(why), None),
    };
    let names = Names::Paths(paths.clone());
    let files = Files { paths, skip_bad: options.skip_bad };
    let origin = root.display().to_string();
    let source = Source::new(origin, "image folder", files.paths.len(), labels, files);
    Ok(Source { class_names, names, owners, ..source })
}

/// The folder of the first level says whose an image is, if that is wanted.
fn owners(
    root: &Path,
    images: &[PathBuf],
    options: &SourceOptions,
) -> Result<Option<Owners>, DataError> {
    match options.client.as_deref() {
        None => return Ok(None),
        Some("folder") => {}
        Some(other) => {
            return Err(refusal(
                root.display(),
                format!("a folder of images has no column {other:?} that says whose they are"),
                "set data.client = \"folder\" if the first level of folders are the clients: CLIENT/CLASS/IMAGE.png",
            ));
        }
    }
    match levels(root, images, 0) {
        Ok((of, names)) => Ok(Some(Owners { names, of: of.into_iter().map(u32::from).collect() })),
        Err((found, remedy)) => Err(refusal(root.display(), found, &remedy)),
    }
}

/// The parts of a folder to train on.
fn open_parts(sight: &Sight, options: &SourceOptions) -> Result<Parts, DataError> {
    let train = training_part(&sight.path, Split::Train, options)?;
    let test = training_part(&sight.path, Split::Test, options)?;
    let test = match test {
        Some(test) => Some(test),
        None => training_part(&sight.path, Split::Validation, options)?,
    };
    if let Some(train) = train {
        return Ok(Parts { train, test });
    }
    let is_part = |name: &&String| part_words().contains(&&*name.to_lowercase());
    let name = |entry: &String| entry.strip_suffix('/').map(ToOwned::to_owned);
    let folders: Vec<String> = sight.entries.iter().filter_map(name).collect();
    if let Some(found) = folders.iter().find(is_part) {
        return Err(refusal(
            sight.path.display(),
            format!("{found} is one of its folders: {}", folders.join(", ")),
            "keep train and test (or val) alone in it, or name a folder whose folders are classes",
        ));
    }
    let whole = SourceOptions { split: Split::All, ..options.clone() };
    Ok(Parts { train: by_name(&sight.path, &whole)?, test: None })
}

/// A part of a folder that has this part beside others.
fn training_part(
    path: &Path,
    split: Split,
    options: &SourceOptions,
) -> Result<Option<Source>, DataError> {
    let options = SourceOptions { split, ..options.clone() };
    match part(path, split) {
        Ok(root) if root != *path => Ok(Some(by_name(&root, &options)?)),
        _ => Ok(None),
    }
}

/// Images in the order of their own names, whatever folder they are in: what was numbered before it was
/// sorted into folders comes in its old order.
fn by_name(root: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let mut found = Found::default();
    walk(root, 0, &mut found)?;
    if found.images.is_empty() {
        return Err(nothing(root, &found));
    }
    found.images.sort_by(|a, b| (a.file_name(), a).cmp(&(b.file_name(), b)));
    source(root, found.images, options)
}

/// The words by which folders and arrays name a part.
pub(crate) fn words(split: Split) -> &'static [&'static str] {
    match split {
        Split::Train => &["train", "training"],
        Split::Validation => &["val", "validation", "valid"],
        Split::Test => &["test", "testing"],
        Split::All => &[],
    }
}

/// All words that name a part.
fn part_words() -> Vec<&'static str> {
    [Split::Train, Split::Validation, Split::Test].map(words).concat()
}

/// `DIR/test` of a folder that holds nothing but `train`, `val` and `test`, else the folder itself.
fn part(path: &Path, split: Split) -> Result<PathBuf, DataError> {
    let known = part_words();
    let mut folders = Vec::new();
    for entry in entries(path)? {
        if entry.is_dir() {
            folders.push(entry.file_name().unwrap_or_default().to_string_lossy().to_lowercase());
        }
    }
    let all_known = folders.iter().all(|name| known.contains(&name.as_str()));
    if folders.len() < 2 || !all_known || split == Split::All {
        return Ok(path.into());
    }
    let wanted = entries(path)?.into_iter().find(|entry| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        entry.is_dir() && words(split).contains(&name.as_str())
    });
    wanted.ok_or_else(|| {
        refusal(
            path.display(),
            format!("it has the folders {}, and not {}", folders.join(", "), words(split)[0]),
            "choose one of them with --split, or name its folder",
        )
    })
}

#[derive(Default)]
struct Found {
    images: Vec<PathBuf>,
    /// Some file that is not an image.
    other: Option<PathBuf>,
    /// Folders that were seen, as the system knows them: a link may lead back.
    seen: HashSet<PathBuf>,
}

/// Every image below a folder, in the order of names; what begins with a dot is left out.
fn walk(folder: &Path, depth: usize, found: &mut Found) -> Result<(), DataError> {
    let real = folder.canonicalize().map_err(|source| file_error("read", folder, source))?;
    if depth > DEEPEST || !found.seen.insert(real) {
        return Ok(());
    }
    for path in entries(folder)? {
        if path.is_dir() {
            walk(&path, depth + 1, found)?;
        } else if is_named_so(&path) {
            found.images.push(path);
        } else {
            found.other.get_or_insert(path);
        }
    }
    Ok(())
}

/// What a folder holds, in the order of names, without what is hidden.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let fail = |source| file_error("read", folder, source);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn nothing(root: &Path, found: &Found) -> DataError {
    let kinds = EXTENSIONS.join(", ");
    match &found.other {
        None => refusal(root.display(), "the folder is empty".into(), "name a folder of images"),
        Some(other) => refusal(
            root.display(),
            format!("it holds no image ({kinds}), but other files, such as {}", other.display()),
            "name the files themselves if they are IDX, NumPy or safetensors files",
        ),
    }
}

type Classes = (Vec<u16>, Vec<String>);

/// For each image the folder of a level in which it lies, as an index into the folders' sorted names.
fn levels(root: &Path, images: &[PathBuf], level: usize) -> Result<Classes, Problem> {
    let folder = |image: &PathBuf| {
        let mut parts = image.strip_prefix(root).unwrap_or(image).components().skip(level);
        let (folder, rest) = (parts.next(), parts.next());
        rest.and(folder).map(|folder| folder.as_os_str().to_string_lossy().into_owned())
    };
    let mut names = BTreeSet::new();
    for image in images {
        let Some(name) = folder(image) else {
            let [what, layout] = match level {
                0 => ["names its class", "CLASS/IMAGE.png"],
                _ => ["names its class, in one that names its client", "CLIENT/CLASS/IMAGE.png"],
            };
            return Err((
                format!("{} is not in a folder that {what}", image.display()),
                format!("put every image into a folder that {what}: {layout}"),
            ));
        };
        names.insert(name);
    }
    if names.len() > usize::from(u16::MAX) + 1 {
        return Err((
            format!("it has {} folders of classes", names.len()),
            format!("name a folder with at most {} of them", usize::from(u16::MAX) + 1),
        ));
    }
    let names: Vec<String> = names.into_iter().collect();
    let place = |image: &PathBuf| {
        let found = folder(image).and_then(|name| names.binary_search(&name).ok());
        found.unwrap_or_default() as u16
    };
    Ok((images.iter().map(place).collect(), names))
}
