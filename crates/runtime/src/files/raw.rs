//! The calls to the operating system on which promises stand. Each may be made to fail ([`super::faults`]).

use super::faults::{Call, pass};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Opens or creates a file to write into it.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    pass(Call::Open, path)?;
    options.open(path)
}

/// Writes all of some bytes.
pub fn write_all(file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Err(error) = pass(Call::Write, path) {
        // As a full disk does it.
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(error);
    }
    file.write_all(bytes)
}

/// Writes some of the bytes; says how many.
pub fn write(file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<usize> {
    pass(Call::Write, path)?;
    file.write(bytes)
}

/// Makes a file as long as this.
pub fn set_len(file: &File, path: &Path, length: u64) -> io::Result<()> {
    pass(Call::Write, path)?;
    file.set_len(length)
}

/// Makes a file's content durable.
pub fn sync_data(file: &File, path: &Path) -> io::Result<()> {
    pass(Call::Sync, path)?;
    file.sync_data()
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    pass(Call::SyncFolder, folder)?;
    File::open(folder)?.sync_all()
}

/// Gives a file or a folder another name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    pass(Call::Rename { to }, from)?;
    fs::rename(from, to)
}

/// Removes a file.
pub fn remove_file(path: &Path) -> io::Result<()> {
    pass(Call::Remove, path)?;
    fs::remove_file(path)
}

/// Removes a folder with all that is in it.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    pass(Call::Remove, path)?;
    fs::remove_dir_all(path)
}

/// Creates a folder and its parents.
pub fn create_folder(path: &Path) -> io::Result<()> {
    pass(Call::CreateFolder, path)?;
    fs::create_dir_all(path)
}
