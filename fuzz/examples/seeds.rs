//! Writes valid bytes into the corpus of every target.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for (target, ..) in formant_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("seed"), formant_fuzz::seed(target))?;
    }
    for decoder in formant_fuzz::decoders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = root.join("corpus").join(decoder);
        std::fs::create_dir_all(&folder)?;
        for (number, bytes) in formant_fuzz::accepted(decoder).iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), bytes)?;
        }
        for entry in std::fs::read_dir(root.join("seeds").join(decoder)).into_iter().flatten() {
            let entry = entry?;
            std::fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    let pickles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/data/tests/pickles");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/pickle");
    for entry in std::fs::read_dir(pickles)?.flatten() {
        if entry.path().extension().is_some_and(|end| end == "gz") {
            let mut plain = Vec::new();
            let packed = std::fs::File::open(entry.path())?;
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut plain)?;
            std::fs::write(corpus.join(entry.file_name()), plain)?;
        }
    }
    Ok(())
}
