;; Evaluates the programs on standard input, one string a line, and prints each value as PTC-Lisp prints it.
(ns user (:require [clojure.string :as str :refer [join split trim triml trimr upper-case lower-case capitalize
                                                    starts-with? ends-with? includes? blank? split-lines index-of]]
                   [clojure.set :as set :refer [union intersection difference subset? superset? rename-keys map-invert]]
                   [clojure.walk :as walk :refer [postwalk prewalk keywordize-keys stringify-keys]]))
(defn rank [v] (cond (nil? v) 0 (false? v) 1 (true? v) 2 (number? v) 3 (keyword? v) 4 (or (string? v) (char? v)) 5
                     (sequential? v) 6 (map? v) 7 (set? v) 8 :else 9))
(defn order [a b] (let [r (compare (rank a) (rank b))]
  (if-not (zero? r) r
    (case (long (rank a)) 3 (compare a b) 4 (compare (subs (str a) 1) (subs (str b) 1)) 5 (compare (str a) (str b))
      6 (let [c (compare (count a) (count b))] (if (zero? c) (or (first (remove zero? (map order a b))) 0) c))
      0))))
(defn text [v] (str "\"" (str/escape (str v) {\\ "\\\\" \" "\\\"" \newline "\\n" \tab "\\t" \return "\\r"}) "\""))
(defn float-text [x] (cond (Double/isNaN x) "##NaN" (Double/isInfinite x) (if (pos? x) "##Inf" "##-Inf")
  (or (zero? x) (<= 1e-4 (Math/abs x) 1e16)) (let [t (.toPlainString (bigdec (str x)))] (if (str/includes? t ".") (let [t (str/replace t #"0+$" "")] (if (str/ends-with? t ".") (str t "0") t)) (str t ".0")))
  :else (str x)))
(defn show [v] (cond (nil? v) "nil" (instance? Double v) (float-text v) (ratio? v) (float-text (double v)) (number? v) (str v)
  (or (string? v) (char? v)) (text v) (var? v) (str "#'" (:name (meta v)))
  (map? v) (str "{" (str/join " " (map (fn [[k x]] (str (show k) " " (show x))) (sort-by key order v))) "}")
  (set? v) (str "#{" (str/join " " (map show (sort order v))) "}")
  (sequential? v) (str "[" (str/join " " (map show v)) "]") (fn? v) "#fn" :else (pr-str v)))
(doseq [line (line-seq (java.io.BufferedReader. *in*))]
  (let [answer (binding [*ns* (the-ns 'user)]
                 (try (let [out (java.io.StringWriter.) v (binding [*out* out] (load-string (read-string line)))] (show v))
                      (catch Throwable e "error")))]
    (println (str/replace answer "\n" "\\n"))))
; pmap leaves threads behind that would keep the machine alive for a minute.
(shutdown-agents)
