//! CIFAR-10 and CIFAR-100 in every form in which they are handed out: the binary version and the Python
//! version, unpacked or as the archive.

mod binary;
mod python;

use crate::archive;
use crate::folder::{FileContent, Folder, holds_all};
use crate::{CatalogueEntry, DataError, Images, Portion};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is particular to one of the sets.
#[derive(Debug)]
pub(crate) struct Set {
    /// Its name in the catalogue.
    name: &'static str,
    /// The folder and the archive of the Python version, as torchvision downloads it.
    python_folder: &'static str,
    python_archive: &'static str,
    binary_archive: &'static str,
    /// The file that names the classes, and where in it.
    meta: &'static str,
    names_key: &'static str,
    labels_key: &'static str,
    /// Label bytes of a record in the binary version, of which the last is the class.
    label_bytes: usize,
}

const SETS: [Set; 2] = [
    Set {
        name: "cifar10",
        python_folder: "cifar-10-batches-py",
        python_archive: "cifar-10-python.tar.gz",
        binary_archive: "cifar-10-binary.tar.gz",
        meta: "batches.meta",
        names_key: "label_names",
        labels_key: "labels",
        label_bytes: 1,
    },
    Set {
        name: "cifar100",
        python_folder: "cifar-100-python",
        python_archive: "cifar-100-python.tar.gz",
        binary_archive: "cifar-100-binary.tar.gz",
        meta: "meta",
        names_key: "fine_label_names",
        labels_key: "fine_labels",
        label_bytes: 2,
    },
];

/// Bytes of a picture.
const PIXELS: usize = 3 * 32 * 32;
/// The longest file that names classes.
const MOST_META: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Binary,
    Python,
}

/// A set that was found.
pub(crate) struct Found {
    set: &'static Set,
    /// What the catalogue knows of it.
    pub(crate) entry: &'static CatalogueEntry,
    version: Version,
    place: Place,
    remedy: String,
}

enum Place {
    Folder(Folder),
    /// The members of an archive that have not been used yet, by their names.
    Archive(PathBuf, RefCell<BTreeMap<String, Vec<u8>>>),
}

/// Training and test images of a set of the catalogue, in whatever form it lies in the data folder.
pub(crate) fn load(
    entry: &'static CatalogueEntry,
    data_dir: &Path,
) -> Result<(Images, Images), DataError> {
    let found = Found::below(entry, data_dir)?;
    let names: Vec<String> = entry.class_names.iter().map(ToString::to_string).collect();
    let [train, test] = found.parts(names.len())?;
    let images =
        |part: Portion| Images::new(entry.shape, part.pixels, part.labels, entry.normalisation);
    Ok((images(train)?, images(test)?))
}

/// Whether the Python version of a set, or an archive of it, is in the data folder.
pub(crate) fn is_in(entry: &CatalogueEntry, data_dir: &Path) -> bool {
    let python = files(entry, Version::Python);
    SETS.iter().filter(|set| set.name == entry.name).any(|set| {
        let archives = [set.python_archive, set.binary_archive];
        let places = [data_dir.join(set.python_folder), data_dir.into()];
        places.iter().any(|place| holds_all(place, &python))
            || archives.iter().any(|archive| data_dir.join(archive).is_file())
    })
}

impl Set {
    fn entry(&self) -> Result<&'static CatalogueEntry, DataError> {
        CatalogueEntry::named(self.name)
    }
}

/// The files of a version, the test file last.
fn files(entry: &CatalogueEntry, version: Version) -> Vec<&'static str> {
    let name = |file: &&'static str| match version {
        Version::Binary => *file,
        Version::Python => file.strip_suffix(".bin").unwrap_or(file),
    };
    entry.files.iter().map(name).collect()
}

impl Found {
    /// Finds a set of the catalogue in the data folder.
    fn below(entry: &'static CatalogueEntry, data_dir: &Path) -> Result<Self, DataError> {
        let Some(set) = SETS.iter().find(|set| set.name == entry.name) else {
            return Err(DataError::UnknownDataset {
                name: entry.name.into(),
                known: "CIFAR".into(),
            });
        };
        let [binary, python] =
            [Version::Binary, Version::Python].map(|version| files(entry, version));
        let layout = format!(
            "expected layout: {}/{{{}}} as torchvision leaves it, {}/{{{}}} (each plain or .gz, or directly in the \
             data folder), or the archive {} or {} as it is, below the folder that --data-dir or FORMANT_DATA \
             names, which is now {}",
            set.python_folder,
            python.join(", "),
            entry.folder,
            binary.join(", "),
            set.python_archive,
            set.binary_archive,
            data_dir.display()
        );
        let remedy = format!("fetch the file again; {layout}");
        let folders = [
            (Version::Binary, data_dir.join(entry.folder), &binary),
            (Version::Python, data_dir.join(set.python_folder), &python),
            (Version::Binary, data_dir.into(), &binary),
            (Version::Python, data_dir.into(), &python),
        ];
        for (version, path, files) in &folders {
            if let Some(folder) = Folder::of(entry.name, path, files, &layout) {
                let (version, place) = (*version, Place::Folder(folder));
                return Ok(Self { set, entry, version, place, remedy });
            }
        }
        for archive in [set.python_archive, set.binary_archive] {
            let path = data_dir.join(archive);
            if path.is_file() {
                return Ok(Self { remedy, ..Self::packed(&path)?.of(set)? });
            }
        }
        let places = folders.each_ref().map(|(_, path, _)| path.as_path());
        Err(Folder::missing(entry, &places[..3], &layout))
    }

    /// The set in a folder, if there is one. `holds` says whether the folder holds a file.
    pub(crate) fn in_folder(
        path: &Path,
        holds: impl Fn(&str) -> bool,
    ) -> Result<Option<Self>, DataError> {
        for set in &SETS {
            for version in [Version::Binary, Version::Python] {
                let entry = set.entry()?;
                let files = files(entry, version);
                let there = |file: &str| holds(file) || holds(&format!("{file}.gz"));
                // A single file called "train" may be anything.
                let is_it = match (version, set.label_bytes) {
                    (Version::Python, 2) => files.iter().all(|file| there(file)),
                    _ => files.iter().any(|file| there(file)),
                };
                if !is_it {
                    continue;
                }
                let layout = format!("expected files: {}", files.join(", "));
                let remedy = format!("fetch the file again; {layout}");
                let folder = Folder::of(entry.name, path, &files, &layout);
                return Ok(folder.map(|folder| Self {
                    set,
                    entry,
                    version,
                    place: Place::Folder(folder),
                    remedy,
                }));
            }
        }
        Ok(None)
    }

    /// The set in an archive.
    pub(crate) fn packed(path: &Path) -> Result<Self, DataError> {
        let mut limits = BTreeMap::new();
        for set in &SETS {
            let entry = set.entry()?;
            for version in [Version::Binary, Version::Python] {
                for (nth, file) in files(entry, version).into_iter().enumerate() {
                    let part = usize::from(nth + 1 == entry.files.len());
                    limits.insert(file, most_bytes(set, entry, version, part));
                }
            }
            limits.insert(set.meta, MOST_META);
        }
        let members = archive::read(path, |name| limits.get(name).copied())?;
        for set in &SETS {
            let entry = set.entry()?;
            for version in [Version::Binary, Version::Python] {
                let files = files(entry, version);
                if files.iter().any(|file| members.contains_key(*file)) {
                    let place = Place::Archive(path.into(), RefCell::new(members));
                    let remedy = "fetch the archive again".to_owned();
                    return Ok(Self { set, entry, version, place, remedy });
                }
            }
        }
        Err(DataError::Input {
            place: path.display().to_string(),
            found: "it is an archive, and not one of CIFAR-10 or CIFAR-100".into(),
            remedy: "unpack it, and name the folder".into(),
        })
    }

    /// An error unless it is the set that its name promises.
    fn of(self, set: &'static Set) -> Result<Self, DataError> {
        if self.set.name == set.name {
            return Ok(self);
        }
        Err(DataError::Malformed {
            file: self.name_of(""),
            found: format!("the files of {}", self.set.name),
            expected: format!("those of {}", set.name),
            remedy: self.remedy,
        })
    }

    fn name_of(&self, file: &str) -> String {
        match &self.place {
            Place::Archive(path, _) if file.is_empty() => path.display().to_string(),
            Place::Archive(path, _) => format!("{}:{file}", path.display()),
            Place::Folder(_) => file.to_owned(),
        }
    }

    /// The content of a file, once.
    fn read(&self, file: &'static str, limit: usize) -> Result<FileContent, DataError> {
        match &self.place {
            Place::Folder(folder) => folder.read(file, limit),
            Place::Archive(path, members) => match members.borrow_mut().remove(file) {
                Some(bytes) => {
                    let remedy = self.remedy.clone();
                    FileContent::unpack(self.name_of(file), bytes, limit, remedy)
                }
                None => Err(DataError::Missing {
                    dataset: self.entry.name,
                    file,
                    looked_in: path.display().to_string(),
                    remedy: self.remedy.clone(),
                }),
            },
        }
    }

    /// Training and test samples, in the order of the files. The last file is the test file.
    pub(crate) fn parts(&self, classes: usize) -> Result<[Portion; 2], DataError> {
        let mut parts = [Portion::default(), Portion::default()];
        let files = files(self.entry, self.version);
        for (nth, file) in files.iter().enumerate() {
            let part = usize::from(nth + 1 == files.len());
            let limit = most_bytes(self.set, self.entry, self.version, part);
            let content = self.read(file, limit)?;
            let samples = &mut parts[part];
            match self.version {
                Version::Binary => {
                    binary::append(&content, self.set.label_bytes, classes, samples)?;
                }
                Version::Python => {
                    python::append(&content, self.set.labels_key, classes, samples)?;
                }
            }
        }
        Ok(parts)
    }

    /// The names of the classes as its files have them; those of the catalogue if they have none or the same,
    /// in which the Python version has underscores.
    pub(crate) fn class_names(&self) -> Result<Vec<String>, DataError> {
        let known: Vec<String> = self.entry.class_names.iter().map(ToString::to_string).collect();
        let (meta, is_there) = (
            self.set.meta,
            match &self.place {
                Place::Folder(folder) => folder.has(self.set.meta),
                Place::Archive(_, members) => members.borrow().contains_key(self.set.meta),
            },
        );
        if self.version == Version::Binary || !is_there {
            return Ok(known);
        }
        let names = python::names(&self.read(meta, MOST_META)?, self.set.names_key)?;
        let alike = names.iter().map(|name| name.replace('_', " ")).eq(known.iter().cloned());
        Ok(if alike { known } else { names })
    }

    /// What the format is called.
    pub(crate) fn version(&self) -> &'static str {
        match self.version {
            Version::Binary => "CIFAR (binary)",
            Version::Python => "CIFAR (Python)",
        }
    }
}

/// The longest file of part 0 (train) or 1 (test). A pickle names every picture, and Python 3 writes a byte as
/// up to two.
fn most_bytes(set: &Set, entry: &CatalogueEntry, version: Version, part: usize) -> usize {
    let samples = entry.most_samples[part];
    match version {
        Version::Binary => samples * (set.label_bytes + entry.shape.len()),
        Version::Python => samples * 2 * entry.shape.len() + (32 << 20),
    }
}
