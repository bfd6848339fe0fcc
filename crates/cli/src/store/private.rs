//! Who else on this machine may read or write the files of a store.

use std::path::{Path, PathBuf};

use scrollback_store::Url;

use crate::failure::{FAILED, Failure};
use crate::input;

/// The files of a store that is one: itself, its log, and the index of the log.
fn files(url: &str) -> Vec<PathBuf> {
    let Ok(Url::Sqlite(path)) = Url::parse(url) else { return Vec::new() };
    let path = Path::new(&path);
    let with = |ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
    [path.to_path_buf(), with("-wal"), with("-shm")].into_iter().filter(|file| file.is_file()).collect()
}

/// Takes the rights of others away from a store that was made just now. What is said in it is for its owner.
pub(crate) fn make_private(url: &str) {
    #[cfg(unix)]
    for file in files(url) {
        use std::os::unix::fs::PermissionsExt;
        // A file system without rights, such as that of a stick, has none to take away.
        let _ = std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600));
    }
    #[cfg(not(unix))]
    let _ = url;
}

/// Refuses a store that others may write: what they wrote would be served as the record. Says so where others may read.
pub(crate) fn check(url: &str) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        for file in files(url) {
            let Ok(mode) = std::fs::metadata(&file).map(|found| found.mode() & 0o777) else { continue };
            let name = file.display();
            if mode & 0o022 != 0 {
                let message = format!("others may write {name} (its mode is {mode:03o}): chmod 600 {name}");
                return Err(Failure::new(FAILED, "unsafe_store", message));
            }
            if mode & 0o044 != 0 {
                input::note(&format!("others may read {name} (its mode is {mode:03o}): chmod 600 {name}"));
            }
        }
        let folder = files(url).first().and_then(|file| file.parent().map(Path::to_path_buf));
        let folder =
            folder.map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder });
        if let Some((folder, found)) = folder.and_then(|folder| Some((folder.clone(), std::fs::metadata(folder).ok()?)))
            // With the sticky bit others cannot take the place of a file.
            && found.mode() & 0o002 != 0
            && found.mode() & 0o1000 == 0
        {
            let message = format!("others may replace the files in {0}: chmod go-w {0}", folder.display());
            return Err(Failure::new(FAILED, "unsafe_store", message));
        }
    }
    #[cfg(not(unix))]
    let _ = url;
    Ok(())
}
