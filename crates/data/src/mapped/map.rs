//! Files as memory. The only module of the crate with `unsafe`.

use bytemuck::AnyBitPattern;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Maps a whole file for reading.
#[expect(unsafe_code, reason = "nobody but the operating system can lend a file as memory")]
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: what is mapped is only read, as bytes or as numbers of which every bit pattern is valid. The
    // file must not change while it is mapped; Formant never changes such a file: an import writes another
    // one and renames it over the old, whose content lives on for whoever has it mapped. A file that
    // somebody else cuts off meanwhile ends the process (SIGBUS), as the documentation says.
    unsafe { Mmap::map(file) }
}

/// Numbers that lie in a mapped file.
pub(super) struct Window<T> {
    map: Arc<Mmap>,
    range: Range<usize>,
    numbers: PhantomData<T>,
}

impl<T: AnyBitPattern> Window<T> {
    /// The numbers in a range of the file, if it holds whole ones and begins where they may.
    pub(super) fn new(map: &Arc<Mmap>, range: Range<usize>) -> Option<Self> {
        bytemuck::try_cast_slice::<u8, T>(map.get(range.clone())?).ok()?;
        Some(Self { map: map.clone(), range, numbers: PhantomData })
    }
}

impl<T: AnyBitPattern> AsRef<[T]> for Window<T> {
    fn as_ref(&self) -> &[T] {
        // `new` has seen that it fits.
        bytemuck::cast_slice(&self.map[self.range.clone()])
    }
}
