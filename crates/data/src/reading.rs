//! From data that a user has to samples: one pass over them, into memory or into a file.

use crate::source::{Chunk, Classes, Parts, Source, Wanted};
use crate::statistics::Statistics;
use crate::{
    CatalogueEntry, DataError, Dataset, Description, Floats, Images, Normalisation, Owners,
    Samples, SourceOptions, Values,
};
use formant_numerics::{Rng, Stream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Samples that are read before the next ones are.
const CHUNK: usize = 1_024;
/// Bytes of them at most.
const CHUNK_BYTES: usize = 64 << 20;

/// How data of a user are read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What cannot be seen from the files themselves.
    pub options: SourceOptions,
    /// The share of each class that becomes the global test set, if the data have none.
    pub test_fraction: f64,
    /// A dataset of the [`CATALOGUE`](crate::CATALOGUE) by whose published values pixels are normalised;
    /// without it, by those of the training samples.
    pub normalisation: Option<String>,
    /// Threads that decode.
    pub threads: usize,
    /// Bytes that samples may take in memory, if there is a limit.
    pub memory: Option<u64>,
}

impl Default for Reading {
    fn default() -> Self {
        let options = SourceOptions::default();
        let normalisation = None;
        Self { options, test_fraction: TEST_FRACTION, normalisation, threads: 1, memory: None }
    }
}

/// [`Reading::test_fraction`] unless somebody says otherwise.
pub const TEST_FRACTION: f64 = 0.2;

/// Which of the two sets a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    Train,
    Test,
}

/// Where samples go as they are read.
pub(crate) trait Sink {
    /// Is told how many training and test samples will come at most, and what they are.
    fn expect(&mut self, samples: [usize; 2], wanted: Wanted);
    /// Takes one sample of pixels.
    fn bytes(&mut self, set: Set, sample: &[u8]) -> Result<(), DataError>;
    /// Takes one sample of real numbers.
    fn floats(&mut self, set: Set, sample: &[f32]) -> Result<(), DataError>;
}

/// What is known once all samples have gone by.
pub(crate) struct Outline {
    pub(crate) description: Description,
    /// Classes of the training and the test samples.
    pub(crate) labels: [Vec<u16>; 2],
    /// Whose the training samples are.
    pub(crate) owners: Option<Owners>,
    /// What was decided that the data do not say.
    pub(crate) remarks: Vec<String>,
}

/// Is told how many samples of how many have been read.
pub type Progress<'p> = &'p mut dyn FnMut(usize, usize);

impl Dataset {
    /// Loads what `source` says: a known dataset of the [`CATALOGUE`](crate::CATALOGUE), whose files are
    /// below `dir`, or a file or folder of the user's. A path that begins with `./` is never a name.
    pub fn find(
        source: &str,
        dir: Option<&Path>,
        reading: &Reading,
        progress: Progress<'_>,
    ) -> Result<Self, DataError> {
        let path = Path::new(source);
        match CatalogueEntry::named(source) {
            Ok(entry) => Self::load(entry.name, dir),
            Err(_) if path.exists() => Self::open(path, reading, progress),
            Err(unknown) => Err(unknown),
        }
    }

    /// Reads data that a user has into memory, whatever their format.
    ///
    /// ```
    /// use formant_data::{Dataset, Reading};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let folder = dir.path();
    /// # for (class, shade) in [("cats", 10), ("dogs", 200)] {
    /// #     std::fs::create_dir(folder.join(class)).unwrap();
    /// #     for i in 0..10 {
    /// #         image::GrayImage::from_pixel(4, 4, image::Luma([shade + i])).save(folder.join(class).join(format!("{i}.png"))).unwrap();
    /// #     }
    /// # }
    /// // A folder with cats/*.png and dogs/*.png.
    /// let dataset = Dataset::read(folder, &Reading::default(), &mut |_, _| {})?;
    /// assert_eq!(dataset.class_names, ["cats", "dogs"]);
    /// // There is no test set, so a fifth of each class becomes one.
    /// assert_eq!((dataset.train.len(), dataset.test.len()), (16, 4));
    /// # Ok::<(), formant_data::DataError>(())
    /// ```
    pub fn read(path: &Path, reading: &Reading, progress: Progress<'_>) -> Result<Self, DataError> {
        let parts = Parts::open(path, &reading.options)?;
        let pouring = parts.pouring(reading)?;
        let wanted = pouring.wanted;
        let size = parts.len() as u64 * bytes_of(wanted);
        if let Some(memory) = reading.memory.filter(|memory| size > *memory) {
            return Err(DataError::Input {
                place: path.display().to_string(),
                found: format!(
                    "its {} samples of {} take {} MiB in memory, and {} MiB are free",
                    parts.len(),
                    wanted.shape,
                    size >> 20,
                    memory >> 20
                ),
                remedy: "write it as one file that need not fit into memory: formant data import SOURCE OUT".into(),
            });
        }
        let mut memory = Memory::default();
        let outline = pour(pouring, &mut memory, progress)?;
        let [train_labels, test_labels] = outline.labels;
        let Description { shape, class_names, normalisation, values, schema } = outline.description;
        let [train_bytes, test_bytes] = memory.bytes;
        let [train_floats, test_floats] = memory.floats;
        let samples: [Arc<dyn Samples>; 2] = match values {
            Values::Bytes => [
                Arc::new(Images::new(shape, train_bytes, train_labels, &normalisation)?),
                Arc::new(Images::new(shape, test_bytes, test_labels, &normalisation)?),
            ],
            Values::Floats => [
                Arc::new(Floats::new(shape, train_floats, train_labels, &normalisation)?),
                Arc::new(Floats::new(shape, test_floats, test_labels, &normalisation)?),
            ],
        };
        let [train, test] = samples;
        let dataset = Self::assemble(name_of(path), class_names, train, test)?;
        let owners = outline.owners.map(Arc::new);
        Ok(Self { values, schema, owners, remarks: outline.remarks, ..dataset })
    }
}

/// What data are called: their file or folder.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.canonicalize().unwrap_or_else(|_| path.into());
    let name = if path.is_file() { name.file_stem() } else { name.file_name() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

pub(crate) fn bytes_of(wanted: Wanted) -> u64 {
    wanted.shape.len() as u64 * if wanted.values.are_bytes() { 1 } else { 4 }
}

/// Samples in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) bytes: [Vec<u8>; 2],
    pub(crate) floats: [Vec<f32>; 2],
}

impl Sink for Memory {
    fn expect(&mut self, samples: [usize; 2], wanted: Wanted) {
        for (set, samples) in samples.into_iter().enumerate() {
            let values = samples * wanted.shape.len();
            match wanted.values {
                Values::Bytes => self.bytes[set].reserve_exact(values),
                Values::Floats => self.floats[set].reserve_exact(values),
            }
        }
    }

    fn bytes(&mut self, set: Set, sample: &[u8]) -> Result<(), DataError> {
        self.bytes[set as usize].extend_from_slice(sample);
        Ok(())
    }

    fn floats(&mut self, set: Set, sample: &[f32]) -> Result<(), DataError> {
        self.floats[set as usize].extend_from_slice(sample);
        Ok(())
    }
}

impl Parts {
    /// All of it, as nobody has asked for anything else.
    pub(crate) fn pouring(&self, reading: &Reading) -> Result<Pouring<'_>, DataError> {
        let (wanted, resized) = self.wanted(&reading.options)?;
        let (is_test, tested) = self.tested(reading.test_fraction)?;
        Ok(Pouring {
            parts: self,
            wanted,
            classes: self.classes()?,
            is_test,
            threads: reading.threads,
            normalisation: self.published(wanted, reading.normalisation.as_deref())?,
            remarks: resized.into_iter().chain(tested).collect(),
        })
    }

    /// The published values of a known dataset, if they fit.
    fn published(
        &self,
        wanted: Wanted,
        name: Option<&str>,
    ) -> Result<Option<Vec<Normalisation>>, DataError> {
        let Some(name) = name else { return Ok(None) };
        let known = CatalogueEntry::named(name)?;
        let fits = wanted.values.are_bytes() && known.shape.channels == wanted.shape.channels;
        if fits {
            return Ok(Some(known.normalisation.to_vec()));
        }
        Err(DataError::Plan {
            key: "normalisation",
            value: format!("{name:?}"),
            remedy: format!(
                "it has {} channels of pixels, and {} has samples of {}: leave it out",
                known.shape.channels,
                self.train.origin(),
                wanted.shape
            ),
        })
    }

    /// Which of the training samples become the global test set, where the data have none, and what to say
    /// of it.
    pub(crate) fn tested(&self, fraction: f64) -> Result<(Vec<bool>, Option<String>), DataError> {
        let labels = self.train.labels()?;
        if self.test.is_some() {
            return Ok((vec![false; labels.len()], None));
        }
        let is_test = split_off(labels, fraction);
        let remark = test_remark(&is_test, fraction);
        Ok((is_test, Some(remark)))
    }
}

/// What is read, and as what.
pub(crate) struct Pouring<'p> {
    pub(crate) parts: &'p Parts,
    pub(crate) wanted: Wanted,
    pub(crate) classes: Classes,
    /// Which samples of the training part go to the test set.
    pub(crate) is_test: Vec<bool>,
    pub(crate) threads: usize,
    /// By what samples are normalised, if not by what the training samples have.
    pub(crate) normalisation: Option<Vec<Normalisation>>,
    /// What was decided that the data do not say.
    pub(crate) remarks: Vec<String>,
}

/// Reads everything once and hands it over, sample by sample: the training part, then the test part.
pub(crate) fn pour(
    pouring: Pouring<'_>,
    sink: &mut dyn Sink,
    progress: Progress<'_>,
) -> Result<Outline, DataError> {
    let Pouring { parts, wanted, classes, is_test, threads, normalisation, mut remarks } = pouring;
    let split_off = is_test.iter().filter(|is_test| **is_test).count();
    let given = parts.test.as_ref().map_or(0, Source::len);
    sink.expect([parts.train.len() - split_off, split_off + given], wanted);
    let mut poured = Poured {
        sink,
        statistics: Statistics::new(wanted.shape),
        labels: [Vec::new(), Vec::new()],
        of: Vec::new(),
        done: 0,
        total: parts.len(),
        progress,
    };
    let (owners, labels) = (parts.train.owners(), parts.train.labels()?);
    let mut skipped = poured.stream(&parts.train, wanted, threads, |i| {
        let set = if is_test[i] { Set::Test } else { Set::Train };
        (set, classes.of_train[usize::from(labels[i])], owners.map(|owners| owners.of[i]))
    })?;
    if let Some(test) = &parts.test {
        let labels = test.labels()?;
        skipped += poured.stream(test, wanted, threads, |i| {
            (Set::Test, classes.of_test[usize::from(labels[i])], None)
        })?;
    }
    if poured.labels[0].is_empty() {
        return Err(DataError::Input {
            place: parts.train.origin().to_owned(),
            found: "no sample is left to train on".into(),
            remedy: "give more data, or a smaller data.test_fraction".into(),
        });
    }
    let known = normalisation.or_else(|| parts.train.normalisation.clone());
    let schema = parts.train.schema().cloned();
    let normalisation =
        known.unwrap_or_else(|| poured.statistics.normalisation(wanted.values, schema.as_ref()));
    let owners = owners.map(|owners| Owners { names: owners.names.clone(), of: poured.of });
    let labels = poured.labels;
    let (shape, values, class_names) = (wanted.shape, wanted.values, classes.names);
    let description = Description { shape, class_names, normalisation, values, schema };
    if skipped > 0 {
        remarks.push(format!("{skipped} samples that cannot be read are left out"));
    }
    Ok(Outline { description, labels, owners, remarks })
}

/// Samples on their way.
struct Poured<'p> {
    sink: &'p mut dyn Sink,
    statistics: Statistics,
    labels: [Vec<u16>; 2],
    /// The owners of the training samples.
    of: Vec<u32>,
    done: usize,
    total: usize,
    progress: Progress<'p>,
}

impl Poured<'_> {
    /// Reads a source; gives how many samples were left out. The next samples are read while these are
    /// taken.
    fn stream(
        &mut self,
        source: &Source,
        wanted: Wanted,
        threads: usize,
        place: impl Fn(usize) -> (Set, u16, Option<u32>),
    ) -> Result<usize, DataError> {
        let most = (CHUNK_BYTES / bytes_of(wanted) as usize).clamp(1, CHUNK);
        let mut stream = source.stream(wanted, threads)?;
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(1);
            scope.spawn(move || {
                while let Some(chunk) = stream.next(most) {
                    if send.send(chunk).is_err() {
                        break;
                    }
                }
            });
            let mut skipped = 0;
            for chunk in receive {
                let chunk = chunk?;
                skipped += chunk.skipped.len();
                self.take(&chunk, wanted, &place)?;
            }
            Ok(skipped)
        })
    }

    fn take(
        &mut self,
        chunk: &Chunk,
        wanted: Wanted,
        place: &impl Fn(usize) -> (Set, u16, Option<u32>),
    ) -> Result<(), DataError> {
        let length = wanted.shape.len();
        for (nth, &i) in chunk.indices.iter().enumerate() {
            let (set, label, owner) = place(i);
            let range = nth * length..(nth + 1) * length;
            match wanted.values {
                Values::Bytes => {
                    let sample = &chunk.pixels[range];
                    if set == Set::Train {
                        self.statistics.add_bytes(sample);
                    }
                    self.sink.bytes(set, sample)?;
                }
                Values::Floats => {
                    let sample = &chunk.floats[range];
                    if set == Set::Train {
                        self.statistics.add_floats(sample);
                    }
                    self.sink.floats(set, sample)?;
                }
            }
            self.labels[set as usize].push(label);
            if set == Set::Train {
                self.of.extend(owner);
            }
        }
        self.done += chunk.indices.len() + chunk.skipped.len();
        (self.progress)(self.done, self.total);
        Ok(())
    }
}

/// What to say of a test set that was split off.
pub(crate) fn test_remark(is_test: &[bool], fraction: f64) -> String {
    match is_test.iter().filter(|is_test| **is_test).count() {
        0 => "no test set is given, and none is split off: the generic model is not scored".into(),
        count => format!(
            "no test set is given: {count} of {} samples, drawn class by class, are the global test set (data.test_fraction = {fraction}), the same for every seed",
            is_test.len(),
        ),
    }
}

/// For each sample, whether it goes to the test set: a share of each class, at least one sample of a class
/// that has two. It depends on nothing but the labels, so that all experiments on the data share it.
pub(crate) fn split_off(labels: &[u16], fraction: f64) -> Vec<bool> {
    let mut by_class: Vec<Vec<u32>> = Vec::new();
    for (i, &label) in (0u32..).zip(labels) {
        let label = usize::from(label);
        if by_class.len() <= label {
            by_class.resize(label + 1, Vec::new());
        }
        by_class[label].push(i);
    }
    let mut is_test = vec![false; labels.len()];
    if fraction <= 0.0 {
        return is_test;
    }
    for (class, members) in by_class.iter_mut().enumerate() {
        // The first round is for the clients' own splits.
        Rng::new(0, Stream::Split, 1, class as u64).shuffle(members);
        let count = (members.len() as f64 * fraction).round() as usize;
        let count = count.max(1).min(members.len().saturating_sub(1));
        for &i in &members[..count] {
            is_test[i as usize] = true;
        }
    }
    is_test
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_each_class_is_split_off() {
        let labels: Vec<u16> =
            (0..100).map(|i| u16::from(i % 4 == 0) * 3).chain([5, 7, 7]).collect();
        let is_test = split_off(&labels, 0.2);
        let count = |class| (0..labels.len()).filter(|&i| is_test[i] && labels[i] == class).count();
        assert_eq!([0, 3, 5, 7].map(count), [15, 5, 0, 1]);
        assert_eq!(is_test, split_off(&labels, 0.2));
        assert!(split_off(&labels, 0.0).iter().all(|is_test| !is_test));
    }
}
