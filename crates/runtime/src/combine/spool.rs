//! Uploads that are needed all at once: in memory as far as there is room, in a temporary file beyond it, and
//! read back in blocks of coordinates.

use formant_methods::MethodError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Rows of numbers, a row for each upload.
pub(super) struct Spool {
    /// Numbers in a row.
    width: usize,
    /// Bytes of rows that may stay in memory.
    limit: u64,
    /// The first rows.
    memory: Vec<f32>,
    /// The others. Nobody else sees the file, and it is gone when this is.
    file: Option<File>,
    rows: usize,
}

const BYTES: usize = size_of::<f32>();

/// Fewest coordinates in a block, however many uploads there are.
const NARROWEST: usize = 256;

impl Spool {
    pub(super) fn new(lengths: Vec<usize>, limit: u64) -> Self {
        let width = lengths.into_iter().sum();
        Self { width, limit, memory: Vec::new(), file: None, rows: 0 }
    }

    /// Keeps one more row.
    pub(super) fn push(&mut self, vectors: &[&[f32]]) -> Result<(), MethodError> {
        let held = (self.memory.len() + self.width) * BYTES;
        if self.file.is_none() && held as u64 <= self.limit {
            for vector in vectors {
                self.memory.extend_from_slice(vector);
            }
        } else {
            self.write(vectors).map_err(|error| told(&error))?;
        }
        self.rows += 1;
        Ok(())
    }

    fn write(&mut self, vectors: &[&[f32]]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        let mut bytes = Vec::with_capacity(self.width.min(1 << 16) * BYTES);
        for part in vectors.iter().flat_map(|vector| vector.chunks(1 << 16)) {
            bytes.clear();
            bytes.extend(part.iter().flat_map(|x| x.to_le_bytes()));
            file.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Shows the coordinates of a range block by block: where a block begins, and its part of each row in the
    /// order in which rows came.
    pub(super) fn for_each_block(
        &mut self,
        range: Range<usize>,
        mut show: impl FnMut(usize, &[&[f32]]),
    ) -> Result<(), MethodError> {
        let in_memory = self.memory.len().checked_div(self.width).unwrap_or(0);
        let on_disk = self.rows - in_memory;
        // As much again as may stay in memory, for what is read back.
        let room = self.limit as usize / BYTES;
        let block =
            room.checked_div(on_disk).map_or(1 << 16, |most| most.clamp(NARROWEST, 1 << 16));
        let mut read = Vec::new();
        let mut begin = range.start;
        while begin < range.end {
            let end = range.end.min(begin + block);
            read.clear();
            for row in 0..on_disk {
                self.read(row, begin..end, &mut read).map_err(|error| told(&error))?;
            }
            let rows = self.memory.chunks_exact(self.width.max(1)).map(|row| &row[begin..end]);
            let rows: Vec<&[f32]> = rows.chain(read.chunks_exact(end - begin)).collect();
            show(begin, &rows);
            begin = end;
        }
        Ok(())
    }

    /// Appends a part of a row of the file.
    fn read(&mut self, row: usize, part: Range<usize>, into: &mut Vec<f32>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let at = (row * self.width + part.start) * BYTES;
        file.seek(SeekFrom::Start(at as u64))?;
        let mut bytes = vec![0; part.len() * BYTES];
        file.read_exact(&mut bytes)?;
        let numbers = bytes.as_chunks::<BYTES>().0;
        into.extend(numbers.iter().map(|number| f32::from_le_bytes(*number)));
        Ok(())
    }
}

fn told(error: &io::Error) -> MethodError {
    MethodError::Scratch {
        folder: std::env::temp_dir().display().to_string(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in_whether_they_fitted_into_memory_or_not() {
        let (width, rows) = (1_000, 7);
        let number = |row: usize, at: usize| (row * width + at) as f32 * 0.37 - 5.0;
        for limit in [0, 9_000, u64::MAX / 8] {
            let mut spool = Spool::new(vec![600, 0, 400], limit);
            for row in 0..rows {
                let all: Vec<f32> = (0..width).map(|at| number(row, at)).collect();
                spool.push(&[&all[..600], &[], &all[600..]]).unwrap();
            }
            let mut next = 300;
            spool
                .for_each_block(300..1_000, |begin, block| {
                    assert_eq!((begin, block.len()), (next, rows));
                    for (row, part) in block.iter().enumerate() {
                        let expected = (begin..begin + part.len()).map(|at| number(row, at));
                        assert!(part.iter().copied().eq(expected), "limit {limit}, row {row}");
                    }
                    next = begin + block[0].len();
                })
                .unwrap();
            assert_eq!(next, 1_000);
            assert!(spool.memory.len() as u64 * 4 <= limit, "no more than may stay in memory");
        }
    }
}
